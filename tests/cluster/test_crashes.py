"""SIGKILL in the middle: no job is lost, none is made twice, no GPU is booked twice."""

import itertools
from collections.abc import Iterator

import pytest

from cluster import faults, streams
from cluster.workloads import Watchdog, Workspace, template
from cotenant_api import errors, names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import components, installation, waiting
from cotenant_e2e.client import Client

JOBS = 30
ALIVE = 40
CROWD = 40
SEED = 1
LONG_SECONDS = 150
FIT_SECONDS = 25
"""Less than `scaleUpAfterSeconds`: a pod that was forgotten is not found by being shown to the autoscaler."""


@pytest.fixture
def workspaces(workspace: Workspace) -> Iterator[list[Workspace]]:
    """Three namespaces."""
    others = [Workspace(workspace.installation, f"{workspace.namespace}-{letter}") for letter in "bc"]
    for other in others:
        other.create()
    yield [workspace, *others]
    for other in others:
        other.remove()


def submit(workspace: Workspace) -> None:
    model = workspace.graph("graph")
    for number in range(JOBS):
        workspace.dljob(f"job-{number:02}", model=model, template=template(run_for="1s"))


def finished(workspace: Workspace) -> int:
    jobs = workspace.client.items(workspace.dljobs())
    return sum(job.get("status", {}).get("phase") == Phase.SUCCEEDED for job in jobs)


def wait_for_placed(watchdog: Watchdog, enough: int) -> None:
    waiting.wait_until(lambda: watchdog.placed() >= enough, f"{enough} jobs placed", LONG_SECONDS)


@pytest.mark.parametrize(
    "victim", [installation.EXTENDER, installation.OPERATOR, components.COTENANT_SCHEDULER, installation.AGENTS]
)
def test_a_killed_process_loses_no_job_and_books_no_gpu_twice(workspace: Workspace, victim: str) -> None:
    cluster = workspace.installation.cluster
    with Watchdog(workspace.client) as watchdog:
        submit(workspace)
        wait_for_placed(watchdog, JOBS // 5)
        cluster.kill(victim)
        cluster.restart(victim)
        waiting.wait_until(lambda: finished(workspace) == JOBS, f"{JOBS} jobs succeeded", LONG_SECONDS)
        assert watchdog.violations == []
    assert len(workspace.client.items(workspace.jobs())) == JOBS
    assert len(workspace.client.items(workspace.pods())) == JOBS


def test_both_killed_at_once_and_again(workspace: Workspace) -> None:
    cluster = workspace.installation.cluster
    with Watchdog(workspace.client) as watchdog:
        submit(workspace)
        for enough in (JOBS // 4, JOBS // 2):
            wait_for_placed(watchdog, enough)
            for victim in (installation.EXTENDER, installation.OPERATOR):
                cluster.kill(victim)
            for victim in (installation.EXTENDER, installation.OPERATOR):
                cluster.restart(victim)
        waiting.wait_until(lambda: finished(workspace) == JOBS, f"{JOBS} jobs succeeded", LONG_SECONDS)
        assert watchdog.violations == []
    assert len(workspace.client.items(workspace.jobs())) == JOBS


def test_a_job_deleted_while_the_operator_is_down_leaves_nothing(workspace: Workspace) -> None:
    cluster = workspace.installation.cluster
    workspace.dljob("gone", model=workspace.graph("graph"), template=template(run_for="300s"))
    workspace.wait_for_phase("gone", Phase.RUNNING)
    cluster.kill(installation.OPERATOR)
    workspace.client.delete(workspace.dljobs("gone"))
    waiting.wait_until(lambda: not workspace.client.items(workspace.pods()), "no pods", LONG_SECONDS)
    cluster.restart(installation.OPERATOR)
    assert workspace.client.items(workspace.jobs()) == []


def test_a_node_without_its_agents_lease_takes_no_new_placement_until_it_is_back(workspace: Workspace) -> None:
    cluster = workspace.installation.cluster
    cluster.stop_process(installation.AGENTS)
    lease = clients.path_of("leases", group="coordination.k8s.io", namespace=names.RELEASE_NAMESPACE, name="node-t4-0")
    workspace.client.delete(lease)
    workspace.pod("waits", 10, annotations={names.GPU_MODELS: "Tesla-T4"})
    waiting.wait_until(lambda: workspace.packed("waits").get("reason") == "UnhealthyGPU", "condition", LONG_SECONDS)
    installation.start_agents(cluster)
    workspace.bound_pod("waits")


def test_whatever_fails_no_promise_is_broken_and_every_pod_is_placed_in_the_end(workspaces: list[Workspace]) -> None:
    installed = workspaces[0].installation
    cluster = installed.cluster
    with Watchdog(cluster.client) as watchdog, faults.Keeper(cluster):
        with streams.Stream(workspaces, watchdog, seed=SEED, level=ALIVE) as stream:
            for fault in faults.FAULTS:
                wait_for_placed(watchdog, watchdog.placed() + JOBS // 2)
                fault(cluster)
            wait_for_placed(watchdog, watchdog.placed() + JOBS // 2)
            stream.run_dry(LONG_SECONDS)
        crowd_is_placed(watchdog, workspaces)
        assert watchdog.violations == []
    assert installed.metric("cotenant_extender_ledger_recounts_total") >= 1
    assert installed.metric("cotenant_extender_ledger_drift") == 0
    assert "level=error" not in cluster.log(installation.EXTENDER).read_text()


def test_a_stream_runs_dry_although_what_it_deleted_was_not_answered(
    workspaces: list[Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out, lost = Client.delete, itertools.count()

    def delete(self: Client, path: str, **parameters: str) -> None:
        carried_out(self, path, **parameters)
        if next(lost) % 2 == 0:
            raise errors.TemporaryError("the answer is lost", delay_seconds=0)

    with (
        Watchdog(workspaces[0].client) as watchdog,
        streams.Stream(workspaces, watchdog, seed=SEED, level=4) as stream,
    ):
        monkeypatch.setattr(Client, "delete", delete)
        wait_for_placed(watchdog, JOBS // 2)
        stream.run_dry(LONG_SECONDS)
        monkeypatch.undo()
    assert next(lost) > 0, "no answer was lost"


def crowd_is_placed(watchdog: Watchdog, workspaces: list[Workspace]) -> None:
    """More pods than there is room for: those that fit are placed, the others when these are gone."""
    spaces = {workspace.namespace: workspace for workspace in workspaces}
    streams.crowd(workspaces, seed=SEED, size=CROWD)
    waiting.wait_until(lambda: len(watchdog.pods(*spaces)) == CROWD, "every pod seen", LONG_SECONDS)
    rounds = 0
    while watchdog.pods(*spaces):
        what = "every pod that fits is placed"
        waiting.wait_until(lambda: not streams.fitting(watchdog, workspaces), what, FIT_SECONDS)
        placed = [pod for pod in watchdog.pods(*spaces) if pod["spec"].get("nodeName")]
        assert placed, "nothing fits on empty GPUs"
        for pod in placed:
            space = spaces[pod["metadata"]["namespace"]]
            space.client.delete(space.pods(pod["metadata"]["name"]))
        streams.wait_until_gone(watchdog, placed)
        rounds += 1
    assert rounds > 1
