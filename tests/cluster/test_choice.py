"""Who chooses among the nodes that take a pod: packing, as shipped; or kube-scheduler, which weighs its scores."""

import json

import pytest

from cluster.workloads import SECONDS, Watchdog, Workspace, placement_of
from cotenant_api import names
from cotenant_e2e import installation, waiting
from cotenant_e2e.client import Json
from cotenant_e2e.installation import Installation

SHIPPED, SLIGHT, DECISIVE = None, 1, 25
"""Decisive: 5 points ahead x 25 x 10 is more than all plugins with their default weights can say together."""
PODS = 12
FIT = 6
ELSEWHERE = "l4-1"
"""A node whose two GPUs take six of the pods, and that packing would fill after others."""


@pytest.fixture(scope="module", params=[DECISIVE, SLIGHT, SHIPPED])
def weight(request: pytest.FixtureRequest, installed: Installation) -> int | None:
    """By what kube-scheduler weighs the extender's scores. The last is as shipped, which the next tests need."""
    chosen: int | None = request.param
    installation.choose_by(installed, weight=chosen)
    return chosen


def prefers(node: str) -> Json:
    """Affinity to a node, as strong as one can say without requiring it."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def earmarked_node(pod: Json) -> str:
    """The node that the pod's earmark names."""
    return str(json.loads(pod["metadata"]["annotations"][names.EARMARK])["node"])


def test_packings_choice_stands_unless_kube_scheduler_is_to_choose(workspace: Workspace, weight: int | None) -> None:
    with Watchdog(workspace.client) as watchdog:
        for number in range(PODS):
            workspace.pod(f"p{number}", 30, affinity=prefers(ELSEWHERE))
        bound = [workspace.bound_pod(f"p{number}") for number in range(PODS)]
        waiting.wait_until(lambda: watchdog.placed() >= PODS, "every placement seen", SECONDS)
        assert watchdog.violations == []
    found, earmarked = [pod["spec"]["nodeName"] for pod in bound], [earmarked_node(pod) for pod in bound]
    assert found == [placement_of(pod)["node"] for pod in bound]
    assert found.count(ELSEWHERE) == (FIT if weight == SLIGHT else 0)
    # Whoever chose: a leader that comes next knows by the earmark where a Binding without reply may put a pod.
    assert found == earmarked
    asked = workspace.installation.metric("cotenant_extender_requests_total", verb="prioritize", result="ok")
    assert asked == 0 if weight is SHIPPED else asked >= PODS
