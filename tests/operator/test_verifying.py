"""What `helm test` finds missing of an installation, and says."""

from typing import Any

import pytest

from cotenant_api.packingpolicy import Mode
from cotenant_operator.release import verifying

Json = dict[str, Any]


def deployment(replicas: int, available: int | None) -> Json:
    return {"spec": {"replicas": replicas}, "status": {"availableReplicas": available} if available else {}}


def daemon_set(wanted: int, ready: int, *, seen: int = 1) -> Json:
    status = {"observedGeneration": seen, "desiredNumberScheduled": wanted, "numberReady": ready}
    return {"metadata": {"generation": 1}, "status": status}


def node(status: str) -> Json:
    condition = {"type": "Ready", "status": status, "reason": "ForeignDevicePlugin", "message": "another one is there"}
    return {"metadata": {"name": "n1"}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (verifying.of_deployment("cotenant-operator", None), "Deployment cotenant-operator is not there: helm upgrade"),
        (verifying.of_deployment("cotenant-operator", deployment(2, None)), "cotenant-operator: 0 of 2 pods are ready"),
        (verifying.of_daemon_set("cotenant-mps", None), "DaemonSet cotenant-mps is not there: helm upgrade"),
        (verifying.of_daemon_set("cotenant-mps", daemon_set(3, 2)), "DaemonSet cotenant-mps: 2 of 3 pods are ready"),
        (verifying.of_daemon_set("cotenant-mps", daemon_set(0, 0, seen=0)), "has not been looked at yet"),
        (verifying.of_policy(None, Mode.PACK), "PackingPolicy default is not there"),
        (verifying.of_policy({"spec": {"mode": "Observe"}}, Mode.PACK), "spec.mode is Observe, and the release was"),
        (verifying.of_gating(there=False), "MutatingAdmissionPolicyBinding cotenant-pods is not there"),
        (verifying.of_node(node("False")), "GPUNode n1: ForeignDevicePlugin: another one is there"),
    ],
)
def test_what_is_missing_is_named_with_the_remedy(found: list[str], said: str) -> None:
    (fault,) = found
    assert said in fault


def test_nothing_is_said_of_what_is_as_it_was_installed() -> None:
    assert verifying.of_deployment("cotenant-operator", deployment(2, 2)) == []
    assert verifying.of_daemon_set("cotenant-mps", daemon_set(0, 0)) == []
    assert verifying.of_policy({"spec": {}}, Mode.PACK) == []
    assert verifying.of_gating(there=True) == []
    assert verifying.of_node(node("True")) == []
    assert verifying.of_node({"metadata": {"name": "n1"}}) == []
