"""Whom a node's agent wants evicted, on a real control plane: the extender hears it of pods on that node alone."""

from collections.abc import Iterator

import pytest

from cluster.workloads import Workspace
from cotenant_api import gpunode, names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

SECONDS = 180
NODE, OTHER = "h200-0", "h200-1"
RUNS = {"demo.cotenant.dev/run-for": "3600s"}
PATH = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION, name=NODE)


@pytest.fixture
def listed(workspace: Workspace) -> Iterator[list[Json]]:
    """What the GPUNode lists; it is as before afterwards."""
    before = workspace.client.get(PATH)["status"]["gpus"]
    yield before
    workspace.client.patch(f"{PATH}/status", {"status": {"gpus": before}})


def test_an_agent_has_pods_of_its_own_node_evicted_and_no_others(workspace: Workspace, listed: list[Json]) -> None:
    uids = {}
    for name, node in (("own", NODE), ("others", OTHER)):
        workspace.pod(name, 20, nodeSelector={"kubernetes.io/hostname": node}, annotations=RUNS)
        uids[name] = workspace.bound_pod(name)["metadata"]["uid"]
    cluster = workspace.installation.cluster
    agent = cluster.client_for_token(cluster.token(names.RELEASE_NAMESPACE, names.NODE_AGENT_ACCOUNT, bound_node=NODE))
    reason = gpunode.EvictionReason.MEMORY_OVERUSE.value
    asked: list[Json] = []
    # The others first: when the own pod is gone, they have been asked for as long.
    for name in ("others", "own"):
        asked.append({"podUID": uids[name], "namespace": workspace.namespace, "pod": name, "evict": reason})
        agent.patch(f"{PATH}/status", {"status": {"gpus": [listed[0] | {"tenants": asked}, *listed[1:]]}})
    waiting.wait_until(lambda: workspace.client.find(workspace.pods("own")) is None, "the eviction", SECONDS)
    told = [event for event in workspace.events() if event["involvedObject"]["name"] == "own"]
    assert any(f"the agent of {NODE}: it uses more GPU memory than was booked" in one["message"] for one in told)
    assert "deletionTimestamp" not in workspace.client.get(workspace.pods("others"))["metadata"]
