"""A node that stops renewing its Lease: what its DLJob says, and that it goes on when the node is known to be off."""

from collections.abc import Iterator

import pytest

from cluster.workloads import SECONDS, Workspace, template
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import components, waiting

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


@pytest.fixture
def silent(workspace: Workspace) -> Iterator[None]:
    """No node renews its Lease for the test: kwok does that for them."""
    cluster = workspace.installation.cluster
    cluster.kill(components.KWOK)
    yield
    cluster.restart(components.KWOK)


def test_a_dljob_on_a_node_that_is_off_says_so_and_goes_on_elsewhere(
    workspace: Workspace, request: pytest.FixtureRequest
) -> None:
    workspace.dljob("train", template=template(run_for="", terminationGracePeriodSeconds=1))
    (replica,) = workspace.wait_for_phase("train", Phase.RUNNING)["replicas"]
    node = clients.path_of("nodes", name=replica["node"])
    request.getfixturevalue("silent")
    told = workspace.wait_for_condition("train", "Ready", "False", "PodsLost")
    assert f"pod {replica['pod']} on node {replica['node']}: the node does not answer" in told["message"]
    taints = workspace.client.get(node)["spec"].get("taints", [])
    workspace.client.delete(workspace.pods(replica["pod"]))
    workspace.client.patch(node, {"spec": {"taints": [*taints, OUT_OF_SERVICE]}})
    waiting.wait_until(lambda: _is_replaced(workspace, replica["pod"]), "another pod", SECONDS)
    assert workspace.status("train")["attempts"] == 1
    workspace.client.patch(node, {"spec": {"taints": None}})


def _is_replaced(workspace: Workspace, pod: str) -> bool:
    """Return whether the Job controller has made another pod, once the one before has ended for certain."""
    found = {one["metadata"]["name"]: one["status"]["phase"] for one in workspace.client.items(workspace.pods())}
    return found.pop(pod, "Failed") == "Failed" and bool(found)
