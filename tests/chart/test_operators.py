"""How many operators there are, and how one follows another."""

import pytest
import yaml

from chart import rendering

VOLUME = ("retraining.enabled=true", "retraining.image=registry.example/train:1", "retraining.predictByActive=true")


def rendered(*values: str) -> tuple[int, int, bool]:
    """Replicas of the operator's Deployment, how many come before one goes, and whether a budget keeps all but one."""
    done = rendering.template(*(part for value in values for part in ("--set", value)))
    assert done.returncode == 0, done.stderr
    found = [item for item in yaml.safe_load_all(done.stdout) if item]
    named = {item["kind"]: item for item in found if item["metadata"]["name"] == "cotenant-operator"}
    spec = named["Deployment"]["spec"]
    assert spec["strategy"]["type"] == "RollingUpdate"
    surge = spec["strategy"]["rollingUpdate"]
    assert surge["maxSurge"] + surge["maxUnavailable"] == 1
    return spec["replicas"], surge["maxSurge"], "PodDisruptionBudget" in named


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), (2, 1, True)),
        (("operator.replicas=1",), (1, 1, False)),
        # Values that an earlier release left, which had no such key.
        (("operator.replicas=null",), (2, 1, True)),
        # Of a volume that one node alone may have, two pods would wait for each other.
        (VOLUME, (1, 0, False)),
        ((*VOLUME, "retraining.accessMode=ReadWriteMany"), (2, 1, True)),
    ],
)
def test_another_operator_stands_by_unless_a_volume_forbids_it(
    values: tuple[str, ...], expected: tuple[int, int, bool]
) -> None:
    assert rendered(*values) == expected


@pytest.mark.parametrize(
    ("values", "user"),
    [
        ((), {"runAsUser": 65532, "runAsGroup": 65532}),
        # Values that an earlier release left, which had no such key.
        (("podSecurityContext=null",), {"runAsUser": 65532, "runAsGroup": 65532}),
        (("podSecurityContext.runAsUser=null", "podSecurityContext.runAsGroup=null"), {}),
        (("podSecurityContext.runAsUser=1000",), {"runAsUser": 1000, "runAsGroup": 65532}),
    ],
)
def test_the_cluster_may_choose_the_user_of_pods_that_need_no_root(
    values: tuple[str, ...], user: dict[str, int]
) -> None:
    done = rendering.template(*(part for value in (*values, "dashboard.enabled=true") for part in ("--set", value)))
    assert done.returncode == 0, done.stderr
    found = [item for item in yaml.safe_load_all(done.stdout) if item and "template" in item.get("spec", {})]
    contexts = {item["metadata"]["name"]: item["spec"]["template"]["spec"].get("securityContext", {}) for item in found}
    rootless = {name: each for name, each in contexts.items() if each.get("runAsNonRoot")}
    assert {"cotenant-operator", "cotenant-scheduler", "cotenant-dashboard"} <= rootless.keys()
    for name, context in rootless.items():
        assert {key: context[key] for key in ("runAsUser", "runAsGroup") if key in context} == user, name
