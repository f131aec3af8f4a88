"""Two operators on a real API server: one acts, and the other goes on where it was."""

import signal
from collections.abc import Iterator

import pytest

from cluster.workloads import SECONDS, Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import installation, waiting
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.installation import Installation
from cotenant_operator.loop import leading

SECOND = "operator-second"
LEASE = clients.path_of("leases", group="coordination.k8s.io", namespace=names.RELEASE_NAMESPACE, name=leading.NAME)


@pytest.fixture
def second(installed: Installation) -> Iterator[str]:
    """Another operator beside the one that is there; in the end that one is alone again."""
    cluster = installed.cluster
    begin(cluster)
    yield SECOND
    cluster.stop_process(SECOND)
    cluster.stop_process(installation.OPERATOR)
    installation.start_operator(cluster)
    waiting.wait_until(lambda: holder(cluster) == installation.OPERATOR, "the first leads", SECONDS)


def begin(cluster: Cluster) -> None:
    """The same command line under another name."""
    port = cluster.free_port(SECOND)
    argv = list(cluster.argv(installation.OPERATOR))
    argv[argv.index("--liveness-port") + 1] = str(port)
    argv[argv.index("--identity") + 1] = SECOND
    cluster.start_process(SECOND, argv, ready=f"http://127.0.0.1:{port}/readyz")


def holder(cluster: Cluster) -> str:
    """Who holds the Lease."""
    return str(cluster.client.get(LEASE)["spec"]["holderIdentity"])


def is_running(workspace: Workspace, name: str) -> None:
    """A DLJob that is made now runs soon, in one attempt."""
    workspace.dljob(name, model=workspace.graph(f"graph-{name}"), template=template(run_for="300s"))
    workspace.wait_for_phase(name, Phase.RUNNING)


def test_one_that_is_stopped_hands_over_at_once(second: str, workspace: Workspace) -> None:
    cluster = workspace.installation.cluster
    is_running(workspace, "before")
    assert holder(cluster) == installation.OPERATOR
    before = cluster.client.get(LEASE)["spec"]["leaseTransitions"]
    cluster.process(installation.OPERATOR).stop()
    assert holder(cluster) in {"", second}
    is_running(workspace, "after")
    assert holder(cluster) == second
    assert cluster.client.get(LEASE)["spec"]["leaseTransitions"] == before + 1
    assert len(workspace.client.items(workspace.jobs())) == 2


def test_one_that_was_paused_while_another_led_ends_and_changes_nothing(second: str, workspace: Workspace) -> None:
    cluster = workspace.installation.cluster
    is_running(workspace, "before")
    first = cluster.process(installation.OPERATOR)
    first.signal(signal.SIGSTOP)
    waiting.wait_until(lambda: holder(cluster) == second, "the second leads", leading.DURATION_SECONDS + SECONDS)
    is_running(workspace, "after")
    first.signal(signal.SIGCONT)
    waiting.wait_until(lambda: not first.alive(), "the first has ended", SECONDS)
    assert "could not be renewed" in cluster.log(installation.OPERATOR).read_text()
    assert holder(cluster) == second
    assert len(workspace.client.items(workspace.jobs())) == 2


def test_one_that_is_killed_is_followed_when_its_lease_has_run_out(second: str, workspace: Workspace) -> None:
    cluster = workspace.installation.cluster
    cluster.kill(installation.OPERATOR)
    assert holder(cluster) == installation.OPERATOR
    is_running(workspace, "after")
    assert holder(cluster) == second
