"""A DLJob in a queue of Kueue, built from its Go module: Kueue decides when its Job runs, and is not fought."""

from collections.abc import Iterator

import pytest

from cluster.workloads import SECONDS, Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import kueue, waiting
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.installation import Installation

QUEUE = "kueue.x-k8s.io/queue-name"


@pytest.fixture(scope="module")
def with_kueue(installed: Installation) -> Iterator[Cluster]:
    """The control plane with Kueue on it."""
    kueue.start(installed.cluster)
    yield installed.cluster
    kueue.stop(installed.cluster)


@pytest.fixture
def queue(with_kueue: Cluster, workspace: Workspace) -> Workspace:
    """A namespace with a queue for two GPUs."""
    kueue.create_queue(with_kueue, workspace.namespace, quota={names.GPU_SHARE: "200"})
    return workspace


def submit(workspace: Workspace, name: str, *, replicas: int = 1, run_for: str = "2s") -> None:
    """A DLJob in the queue, of which each pod asks for a whole GPU."""
    spec = {"replicas": replicas, "sharing": "Exclusive", "template": template(run_for=run_for)}
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "DLJob",
        "metadata": {"name": name, "labels": {QUEUE: workspace.namespace}},
        "spec": spec,
    }
    workspace.client.create(workspace.dljobs(), body)


def admitted(workspace: Workspace) -> int:
    """How many workloads Kueue has admitted in the namespace."""
    found = workspace.client.items(kueue.path("workloads", namespace=workspace.namespace))
    conditions = (condition for one in found for condition in one.get("status", {}).get("conditions") or ())
    return sum(one["type"] == "Admitted" and one["status"] == "True" for one in conditions)


def set_stopped(workspace: Workspace, policy: str) -> None:
    workspace.client.patch(kueue.path("clusterqueues", name=workspace.namespace), {"spec": {"stopPolicy": policy}})


def suspended(workspace: Workspace) -> list[bool]:
    return [job["spec"]["suspend"] for job in workspace.client.items(workspace.jobs())]


def test_a_dljob_waits_for_kueue_runs_when_admitted_and_completes(queue: Workspace) -> None:
    submit(queue, "first", replicas=2, run_for="")
    queue.wait_for_phase("first", Phase.RUNNING)
    assert admitted(queue) == 1
    submit(queue, "second")
    queue.wait_for_condition("second", "Queued", "True", "WaitingForAdmission")
    assert admitted(queue) == 1
    assert sorted(suspended(queue)) == [False, True]
    queue.end_pods("first")
    queue.wait_for_phase("first", Phase.SUCCEEDED)
    queue.wait_for_phase("second", Phase.SUCCEEDED)


def test_an_eviction_by_kueue_is_shown_as_such_and_not_fought(queue: Workspace) -> None:
    submit(queue, "first", replicas=2, run_for="")
    queue.wait_for_phase("first", Phase.RUNNING)
    set_stopped(queue, "HoldAndDrain")
    queue.wait_for_condition("first", "Queued", "True", "WaitingForAdmission")
    waiting.wait_until(lambda: not queue.client.items(queue.pods()), "no pods", SECONDS)
    assert suspended(queue) == [True]
    assert queue.status("first")["attempts"] == 1
    set_stopped(queue, "None")
    queue.wait_for_phase("first", Phase.RUNNING)
    queue.end_pods("first")
    queue.wait_for_phase("first", Phase.SUCCEEDED)
    assert queue.status("first")["attempts"] == 1
