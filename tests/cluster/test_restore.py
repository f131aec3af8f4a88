"""etcd is restored from a snapshot on a control plane of its own: the extender, which runs on, believes what it lists.

The snapshot is a copy of etcd's data, as of one moment; resource versions go back to it. Kubernetes says that whatever
keeps a state of its own is to be started again after that. Here everything is, but the extender.
"""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.workloads import RUN_FOR, SECONDS, Workspace
from cotenant_e2e import components, installation, nodes, startup, testing, waiting
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.installation import Installation

LONG = {RUN_FOR: "3600s"}
AGAIN = (
    components.CONTROLLER_MANAGER,
    components.KWOK,
    components.DEFAULT_SCHEDULER,
    components.COTENANT_SCHEDULER,
    installation.OPERATOR,
    installation.AGENTS,
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A namespace on a cluster that is thrown away: one node with two GPUs."""
    options = startup.Options(nodes=nodes.uniform(1, gpus=2))
    with testing.control_plane(tmp_path_factory.mktemp("restored"), options) as cluster:
        made = Workspace(installation.install(cluster), "restored")
        made.create()
        yield made


def data(cluster: Cluster) -> Path:
    return cluster.directory / "etcd"


def saved(cluster: Cluster, to: Path) -> Path:
    """A copy of etcd's data while it stands still."""
    with cluster.paused(components.ETCD):
        shutil.copytree(data(cluster), to)
    return to


def write(workspace: Workspace, pod: str, *, until: int) -> None:
    """Write a pod until the API server has come so far."""
    while (reached := version(workspace)) < until:
        workspace.client.patch(workspace.pods(pod), {"metadata": {"labels": {"version": str(reached)}}})


def restore(cluster: Cluster, snapshot: Path) -> None:
    """Put the copy in the place of the data, and start everything again but the extender."""
    for name in (components.API_SERVER, components.ETCD):
        cluster.kill(name)
    shutil.rmtree(data(cluster))
    snapshot.rename(data(cluster))
    for name in (components.ETCD, components.API_SERVER, *AGAIN):
        cluster.restart(name)


def version(workspace: Workspace) -> int:
    return int(workspace.client.get(f"{workspace.pods()}?limit=1")["metadata"]["resourceVersion"])


def state(installed: Installation, workspace: Workspace, pod: str) -> str:
    """What the extender says of a pod."""
    url = installed.extender_url(f"explain?pod={workspace.namespace}/{pod}")
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
            return str(json.load(answer)["jobs"][0]["state"])
    except urllib.error.HTTPError as error:
        return str(error.code)


def gone(workspace: Workspace, name: str) -> bool:
    return workspace.client.find(workspace.pods(name)) is None


def test_after_a_restore_the_ledger_is_what_was_restored(workspace: Workspace, tmp_path: Path) -> None:
    installed = workspace.installation
    cluster, extender = installed.cluster, installed.cluster.process(installation.EXTENDER)
    workspace.pod("kept", 70, annotations=LONG)
    workspace.bound_pod("kept")
    snapshot, before = saved(cluster, tmp_path / "snapshot"), version(workspace)
    workspace.pod("late", 80, annotations=LONG)
    workspace.bound_pod("late")
    workspace.client.delete(workspace.pods("kept"))
    waiting.wait_until(lambda: gone(workspace, "kept"), "kept is gone", SECONDS)
    write(workspace, "late", until=before + 500)
    restore(cluster, snapshot)
    assert version(workspace) < before + 500
    assert not gone(workspace, "kept")
    waiting.wait_until(lambda: state(installed, workspace, "kept") == "Placed", "kept is known again", SECONDS)
    assert state(installed, workspace, "late") == "404"
    workspace.pod("next", 100, annotations=LONG)
    workspace.bound_pod("next")
    assert installed.metric("cotenant_extender_ledger_drift") == 0
    assert cluster.process(installation.EXTENDER) == extender
    assert extender.alive()


def test_versions_that_have_come_further_than_before_hide_nothing_of_what_was_restored(
    workspace: Workspace, tmp_path: Path
) -> None:
    installed = workspace.installation
    cluster, extender = installed.cluster, installed.cluster.process(installation.EXTENDER)
    workspace.pod("stays", 10, annotations=LONG)
    workspace.bound_pod("stays")
    snapshot = saved(cluster, tmp_path / "snapshot")
    workspace.pod("lost", 10, annotations=LONG)
    workspace.bound_pod("lost")
    workspace.client.delete(workspace.pods("stays"))
    waiting.wait_until(lambda: gone(workspace, "stays"), "the pod is gone", SECONDS)
    waiting.wait_until(lambda: state(installed, workspace, "stays") == "404", "the extender knows", SECONDS)
    reached = version(workspace)
    # As if it could not be reached: it hears of nothing before versions have come further than what it has seen.
    with cluster.paused(installation.EXTENDER):
        restore(cluster, snapshot)
        write(workspace, "stays", until=reached + 200)
    waiting.wait_until(lambda: state(installed, workspace, "stays") == "Placed", "the pod is known again", SECONDS)
    assert state(installed, workspace, "lost") == "404"
    assert installed.metric("cotenant_extender_ledger_drift") == 0
    assert cluster.process(installation.EXTENDER) == extender
