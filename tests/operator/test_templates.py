"""What of a pod template would harm whoever reads it."""

from typing import Any

import pytest

from cotenant_operator.state import templates

CONTAINER = {"name": "main", "image": "example"}


def of_pod(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [CONTAINER], **spec}}


def of_container(**fields: Any) -> dict[str, Any]:
    return of_pod(containers=[{**CONTAINER, **fields}])


@pytest.mark.parametrize(
    "template",
    [
        of_container(resources={"limits": {"cpu": "1e999999999"}}),
        of_container(resources={"requests": {"memory": "1E+100"}}),
        of_container(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"divisor": "1e-1000"}}}]),
        of_pod(initContainers=[{**CONTAINER, "resources": {"limits": {"cpu": "1e100"}}}]),
        of_pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1e100"}}]),
        of_pod(
            volumes=[
                {
                    "name": "v",
                    "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1e100"}}}}},
                }
            ]
        ),
        of_pod(overhead={"cpu": "1e100"}),
        of_pod(resources={"limits": {"cpu": "1e100"}}),
    ],
)
def test_no_amount_costs_its_reader_more_than_a_hundred_steps(template: dict[str, Any]) -> None:
    assert "with an exponent of two digits at most" in (templates.problem(template) or "")


@pytest.mark.parametrize(
    ("template", "where", "remedy"),
    [
        (of_pod(schedulingGates=["x"]), "schedulingGates[0]: 'x'", "must be an object"),
        (of_pod(schedulingGates="x"), "schedulingGates: 'x'", "must be a list"),
        (of_pod(schedulingGates={"name": "x"}), "schedulingGates: {'name': 'x'}", "must be a list"),
        (of_pod(schedulingGates={}), "schedulingGates: {}", "must be a list"),
        (of_container(env=[{"name": {"a": 1}}]), "containers[0].env[0].name: {'a': 1}", "must be text"),
        (of_container(env="A=1"), "containers[0].env: 'A=1'", "must be a list"),
        (of_container(env={"name": "A"}), "containers[0].env: {'name': 'A'}", "must be a list"),
        (of_container(command={"a": 1}), "containers[0].command: {'a': 1}", "must be a list"),
        (of_container(volumeMounts=[{}]), "containers[0].volumeMounts[0]: {}", "must have mountPath"),
        (of_container(volumeMounts=[{"mountPath": "/", "name": ["x"]}]), "volumeMounts[0].name: ['x']", "must be text"),
        (of_container(ports=[{"containerPort": "80"}]), "ports[0].containerPort: '80'", "must be a whole number"),
        (of_container(livenessProbe={"exec": []}), "livenessProbe.exec: []", "must be an object"),
        (of_pod(initContainers=[{**CONTAINER, "env": [3]}]), "initContainers[0].env[0]: 3", "must be an object"),
        (of_pod(volumes=[{"emptyDir": {}}]), "volumes[0]: {'emptyDir': {}}", "must have name"),
        (of_pod(volumes={"name": "x"}), "volumes: {'name': 'x'}", "must be a list"),
        (of_pod(affinity="x"), "affinity: 'x'", "must be an object"),
        (of_pod(affinity={"podAffinity": ["x"]}), "affinity.podAffinity: ['x']", "must be an object"),
        (of_pod(overhead=["cpu"]), "overhead: ['cpu']", "must be an object"),
        (of_pod(resources={"limits": {"cpu": {}}}), "resources.limits.cpu: {}", "must be a quantity"),
        (of_pod(serviceAccountName="a/../b"), "serviceAccountName: 'a/../b'", "must be the name of a ServiceAccount"),
        (of_pod(serviceAccountName=".."), "serviceAccountName: '..'", "must be the name of a ServiceAccount"),
    ],
)
def test_what_the_operator_looks_into_is_of_its_type(template: dict[str, Any], where: str, remedy: str) -> None:
    told = templates.problem(template) or ""
    assert told.startswith("spec.template.spec.")
    assert where in told
    assert told.endswith(remedy)


@pytest.mark.parametrize(
    "template",
    [
        of_pod(),
        of_container(resources={"limits": {"cpu": "1e2", "memory": "16Gi"}}, env=[{"name": "LR", "value": "1e-100"}]),
        of_container(args=["--limits", "1e999"], resources=None, env=None),
        of_pod(schedulingGates=[{"name": "example.org/hold"}], volumes=None),
        of_pod(affinity=None, overhead={"cpu": 0.5}, serviceAccountName="team.a-1", subdomain=None),
        of_pod(newFieldOfKubernetes={"any": ["thing"]}),
    ],
)
def test_nothing_is_said_against_others(template: dict[str, Any]) -> None:
    assert templates.problem(template) is None
