"""A sweep on a real control plane: its runs are DLJobs, which are placed, suspended, and deleted with it."""

from cluster.workloads import CONTAINER, Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import waiting


def runs(workspace: Workspace) -> dict[str, str]:
    """The phases of a sweep's runs, by name."""
    found = workspace.client.items(workspace.dljobs(), labelSelector=f"{names.DLJOB_LABEL}=sweep")
    return {one["metadata"]["name"]: one.get("status", {}).get("phase", "") for one in found}


def test_the_runs_of_a_sweep_run_beside_each_other_and_stop_and_go_with_it(workspace: Workspace) -> None:
    workspace.dljob("sweep", template=template(run_for=""), completions=4, parallelism=2)
    running = {"sweep-0": Phase.RUNNING, "sweep-1": Phase.RUNNING}
    waiting.wait_until(lambda: runs(workspace) == running, "two runs run")
    workspace.wait_for_phase("sweep", Phase.RUNNING)
    workspace.client.patch(workspace.dljobs("sweep"), {"spec": {"suspend": True}})
    waiting.wait_until(lambda: set(runs(workspace).values()) == {Phase.SUSPENDED}, "the runs are suspended")
    workspace.client.patch(workspace.dljobs("sweep"), {"spec": {"suspend": False}})
    waiting.wait_until(lambda: runs(workspace) == running, "the runs go on")
    workspace.client.delete(workspace.dljobs("sweep"))
    waiting.wait_until(lambda: not runs(workspace), "the runs are deleted with their sweep")


def test_a_slip_that_is_corrected_in_a_sweep_is_corrected_in_its_runs(workspace: Workspace) -> None:
    """A Job with a pull policy that Kubernetes does not know is refused."""
    slipped = template(nodeSelector={"example.org/rack": "none"})
    slipped["spec"]["containers"] = [{**CONTAINER, "imagePullPolicy": "Sometimes"}]
    workspace.dljob("sweep", template=slipped, completions=3, parallelism=2)
    workspace.wait_for_condition("sweep", "Stalled", "True", "RunsStalled")
    before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in workspace.client.items(workspace.dljobs())}
    # As kubectl edit does: what is not in the object any more goes.
    removed = {"nodeSelector": None, "containers": [CONTAINER]}
    workspace.client.patch(workspace.dljobs("sweep"), {"spec": {"template": {"spec": removed}}})
    workspace.wait_for_phase("sweep", Phase.SUCCEEDED)
    found = {one["metadata"]["name"]: one for one in workspace.client.items(workspace.dljobs())}
    assert {name: found[name]["metadata"]["uid"] for name in before} == before
    assert all("nodeSelector" not in one["spec"]["template"]["spec"] for one in found.values())


def test_a_sweep_is_done_when_all_its_runs_are(workspace: Workspace) -> None:
    workspace.dljob("sweep", template=template(), completions=3, parallelism=2)
    workspace.wait_for_phase("sweep", Phase.SUCCEEDED)
    found = workspace.client.get(workspace.dljobs("sweep"))["status"]
    assert (found["succeeded"], found["failed"], found["completedIndexes"]) == (3, 0, "0-2")
    indexes = [
        {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}
        for pod in workspace.client.items(workspace.pods())
    ]
    assert sorted(one["JOB_COMPLETION_INDEX"] or "" for one in indexes) == ["0", "1", "2"]
