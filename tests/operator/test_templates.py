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
    "template",
    [
        of_pod(schedulingGates=["x"]),
        of_pod(schedulingGates="x"),
        of_pod(schedulingGates={}),
        of_container(env=[{"name": {"a": 1}}]),
        of_container(env="A=1"),
        of_pod(initContainers=[{**CONTAINER, "env": [3]}]),
        of_pod(volumes=[{"emptyDir": {}}]),
    ],
)
def test_what_the_operator_looks_into_is_of_its_type(template: dict[str, Any]) -> None:
    assert "must be a list of objects that each have a name" in (templates.problem(template) or "")


@pytest.mark.parametrize(
    "template",
    [
        {},
        of_pod(),
        of_container(resources={"limits": {"cpu": "1e2", "memory": "16Gi"}}, env=[{"name": "LR", "value": "1e-100"}]),
        of_container(args=["--limits", "1e999"], resources=None, env=None),
        of_pod(schedulingGates=[{"name": "example.org/hold"}], volumes=None),
    ],
)
def test_nothing_is_said_against_others(template: dict[str, Any]) -> None:
    assert templates.problem(template) is None
