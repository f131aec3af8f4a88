"""A DLJob in a queue of Kueue, built from its Go module: Kueue decides when its Job runs, and is not fought."""

from collections.abc import Iterator
from typing import Any

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


def submit(
    workspace: Workspace, name: str, *, replicas: int = 1, run_for: str = "2s", queued: bool = True, **more: Any
) -> None:
    """A DLJob of which each pod asks for a whole GPU; in the queue, unless it names none."""
    spec = {"replicas": replicas, "sharing": "Exclusive", "template": template(run_for=run_for), **more}
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "DLJob",
        "metadata": {"name": name, "labels": {QUEUE: workspace.namespace} if queued else {}},
        "spec": spec,
    }
    workspace.client.create(workspace.dljobs(), body)


def edit(workspace: Workspace, name: str, change: dict[str, Any]) -> None:
    workspace.client.patch(workspace.dljobs(name), change)


def admitted(workspace: Workspace) -> int:
    """How many workloads Kueue has admitted in the namespace."""
    found = workspace.client.items(kueue.path("workloads", namespace=workspace.namespace))
    conditions = (condition for one in found for condition in one.get("status", {}).get("conditions") or ())
    return sum(one["type"] == "Admitted" and one["status"] == "True" for one in conditions)


def set_stopped(workspace: Workspace, policy: str) -> None:
    workspace.client.patch(kueue.path("clusterqueues", name=workspace.namespace), {"spec": {"stopPolicy": policy}})


def suspended(workspace: Workspace) -> list[bool]:
    return [job["spec"]["suspend"] for job in workspace.client.items(workspace.jobs())]


def generations(workspace: Workspace) -> dict[str, int]:
    """How often the spec of each Job was written."""
    found = workspace.client.items(workspace.jobs())
    return {job["metadata"]["name"]: job["metadata"]["generation"] for job in found}


def bound(workspace: Workspace) -> list[Any]:
    return [pod for pod in workspace.client.items(workspace.pods()) if pod["spec"].get("nodeName")]


def settled(workspace: Workspace, *, another: str) -> None:
    """Have another DLJob go the whole way: time enough for a fight to show."""
    submit(workspace, another, run_for="3s")
    workspace.wait_for_phase(another, Phase.SUCCEEDED)


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


def test_a_dljob_that_is_suspended_gives_its_quota_back_and_nobody_fights_over_its_job(queue: Workspace) -> None:
    submit(queue, "first", replicas=2, run_for="")
    queue.wait_for_phase("first", Phase.RUNNING)
    edit(queue, "first", {"spec": {"suspend": True}})
    queue.wait_for_phase("first", Phase.SUSPENDED)
    settled(queue, another="second")
    left = queue.client.items(queue.pods(), labelSelector=f"{names.DLJOB_LABEL}=first")
    assert [pod for pod in left if pod["status"]["phase"] == "Running"] == []
    assert max(generations(queue).values()) <= 4
    edit(queue, "first", {"spec": {"suspend": False}})
    queue.wait_for_phase("first", Phase.RUNNING)
    queue.end_pods("first")
    queue.wait_for_phase("first", Phase.SUCCEEDED)
    assert queue.status("first").get("failures", 0) == 0


def test_a_dljob_that_is_suspended_while_it_waits_leaves_the_queue(queue: Workspace) -> None:
    submit(queue, "first", replicas=2, run_for="")
    queue.wait_for_phase("first", Phase.RUNNING)
    submit(queue, "second")
    queue.wait_for_condition("second", "Queued", "True", "WaitingForAdmission")
    edit(queue, "second", {"spec": {"suspend": True}})
    queue.wait_for_phase("second", Phase.SUSPENDED)
    waiting.wait_until(lambda: set(generations(queue)) == {"first-1"}, "no Job of second", SECONDS)
    queue.end_pods("first")
    queue.wait_for_phase("first", Phase.SUCCEEDED)
    assert set(generations(queue)) == {"first-1"}
    edit(queue, "second", {"spec": {"suspend": False}})
    queue.wait_for_phase("second", Phase.SUCCEEDED)
    assert queue.status("second")["attempts"] == 1


def test_a_job_that_another_controller_keeps_suspended_stays_so_and_says_so(queue: Workspace) -> None:
    submit(queue, "nameless", queued=False)
    told = queue.wait_for_condition("nameless", "Queued", "True", "WaitingForAdmission")
    settled(queue, another="other")
    assert generations(queue)["nameless-1"] == 1
    assert "kueue.x-k8s.io/queue-name" in told["message"]


def test_a_queue_that_is_named_later_is_the_one_that_the_job_waits_in(queue: Workspace) -> None:
    submit(queue, "nameless", queued=False)
    queue.wait_for_condition("nameless", "Queued", "True", "WaitingForAdmission")
    edit(queue, "nameless", {"metadata": {"labels": {QUEUE: queue.namespace}}})
    queue.wait_for_phase("nameless", Phase.SUCCEEDED)
    assert queue.status("nameless")["attempts"] == 1


def test_pods_that_serve_hold_no_more_than_the_queue_has(queue: Workspace) -> None:
    submit(queue, "serve", replicas=3, run_for="", workloadType="Inference")
    waiting.wait_until(lambda: admitted(queue) == 2, "two admitted pods", SECONDS)
    waiting.wait_until(lambda: len(bound(queue)) == 2, "two pods on nodes", SECONDS)
    assert len(queue.client.items(queue.pods())) == 3
    queue.wait_for_message("serve", "Queued", "kueue.x-k8s.io/admission")
    assert len(bound(queue)) == 2
    edit(queue, "serve", {"spec": {"suspend": True}})
    waiting.wait_until(lambda: admitted(queue) == 0, "no admitted pods", SECONDS)
