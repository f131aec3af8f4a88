"""Who was asked to end and exits with 0 is run again: beside the real Job controller, which counts that as done."""

from cluster.workloads import RUN_FOR, SECONDS, Workspace, template
from cotenant_api.dljob import Phase
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

ENDS_WELL = "demo.cotenant.dev/ends-well"


def polite() -> Json:
    """A template of pods that run for ever, and exit with 0 a second after they were asked to end."""
    return template(run_for="") | {"metadata": {"annotations": {ENDS_WELL: "true"}}}


def run_on(workspace: Workspace, name: str, *, attempts: int) -> None:
    """Let the job end by itself in this attempt."""
    workspace.wait_for_phase(name, Phase.RUNNING)
    assert workspace.status(name)["attempts"] == attempts
    for pod in workspace.client.items(workspace.pods()):
        notes = {"metadata": {"annotations": {RUN_FOR: "0s"}}}
        workspace.client.patch(workspace.pods(pod["metadata"]["name"]), notes)
    done = workspace.wait_for_phase(name, Phase.SUCCEEDED)
    assert (done["attempts"], done["failures"]) == (attempts, 0)


def evict(workspace: Workspace, name: str) -> None:
    """As `kubectl drain` and the packing queue do."""
    (replica,) = workspace.status(name)["replicas"]
    metadata = {"name": replica["pod"], "namespace": workspace.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    workspace.client.create(f"{workspace.pods(replica['pod'])}/eviction", body)


def test_a_pod_that_was_evicted_and_exits_with_0_is_run_again(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), backoffLimit=0, template=polite())
    workspace.wait_for_phase("train", Phase.RUNNING)
    evict(workspace, "train")
    waiting.wait_until(lambda: workspace.phase("train") != Phase.RUNNING, "it is seen", SECONDS)
    run_on(workspace, "train", attempts=2)
    told = [event["message"] for event in workspace.events() if event["reason"] == "AttemptFailed"]
    assert len(told) == 1
    assert "was disrupted" in told[0]


def test_a_job_that_was_suspended_and_exits_with_0_goes_on_when_it_is_resumed(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), backoffLimit=0, template=polite())
    workspace.wait_for_phase("train", Phase.RUNNING)
    workspace.client.patch(workspace.dljobs("train"), {"spec": {"suspend": True}})
    waiting.wait_until(lambda: not workspace.client.items(workspace.pods()), "no pods", SECONDS)
    assert workspace.phase("train") == Phase.SUSPENDED
    workspace.client.patch(workspace.dljobs("train"), {"spec": {"suspend": False}})
    workspace.wait_for_phase("train", Phase.RUNNING)
    run_on(workspace, "train", attempts=workspace.status("train")["attempts"])


def test_a_pod_that_was_evicted_and_fails_is_replaced_within_the_attempt(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), backoffLimit=0, template=template(run_for=""))
    workspace.wait_for_phase("train", Phase.RUNNING)
    evict(workspace, "train")
    waiting.wait_until(lambda: workspace.phase("train") != Phase.RUNNING, "it is seen", SECONDS)
    run_on(workspace, "train", attempts=1)
