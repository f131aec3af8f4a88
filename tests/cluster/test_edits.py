"""No edit is swallowed: beside the real Job controller, and a real Pod Security admission."""

import time
from typing import Final

from cluster.workloads import CONTAINER, SECONDS, Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

ENFORCE: Final = "pod-security.kubernetes.io/enforce"
REMEDY: Final = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}


def edit(workspace: Workspace, name: str, **spec: object) -> None:
    workspace.client.patch(workspace.dljobs(name), {"spec": spec})


def jobs(workspace: Workspace) -> list[Json]:
    return workspace.client.items(workspace.jobs())


def test_the_remedy_of_what_pod_security_refuses_is_applied(workspace: Workspace) -> None:
    labels = {"metadata": {"labels": {ENFORCE: "restricted"}}}
    workspace.client.patch(clients.path_of("namespaces", name=workspace.namespace), labels)
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for="1s"))
    refused = workspace.wait_for_condition("train", "Queued", "False", "PodCreationFailed")
    assert "seccompProfile" in refused["message"]
    edit(workspace, "train", template=template(run_for="1s", **REMEDY))
    done = workspace.wait_for_phase("train", Phase.SUCCEEDED)
    assert (done["attempts"], done["failures"]) == (1, 0)
    assert not [event for event in workspace.events() if event["reason"] == "SpecChangeIgnored"]


def test_an_edit_while_queued_goes_to_the_pods_of_the_same_attempt(workspace: Workspace) -> None:
    workspace.dljob("train", gpuModels=["No-Such-Model"], sharing="Exclusive", template=template(run_for="1s"))
    workspace.wait_for_condition("train", "Queued", "True")
    waiting.wait_until(lambda: len(workspace.client.items(workspace.pods())) == 1, "its pod", SECONDS)
    edit(workspace, "train", gpuModels=["Tesla-T4"])
    assert workspace.wait_for_phase("train", Phase.SUCCEEDED)["attempts"] == 1
    assert [job["metadata"]["name"] for job in jobs(workspace)] == ["train-1"]


def test_an_edit_of_what_runs_is_told_and_applied_by_a_suspension(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for=""))
    workspace.wait_for_phase("train", Phase.RUNNING)
    changed = template(run_for="1s")
    changed["spec"]["containers"] = [{**CONTAINER, "image": "registry.example/train:2"}]
    edit(workspace, "train", template=changed)
    workspace.wait_for_condition("train", "Current", "False", "SpecChangeIgnored")
    edit(workspace, "train", suspend=True)
    waiting.wait_until(lambda: not workspace.client.items(workspace.pods()), "no pods", SECONDS)
    edit(workspace, "train", suspend=False)
    done = workspace.wait_for_phase("train", Phase.SUCCEEDED)
    assert done["attempts"] == 1
    assert workspace.condition("train", "Current")["status"] == "True"
    (job,) = jobs(workspace)
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/train:2"
    assert job["metadata"]["labels"][names.DLJOB_LABEL] == "train"


def set_label(workspace: Workspace, text: str | None) -> None:
    (job,) = jobs(workspace)
    path = f"{workspace.jobs()}/{job['metadata']['name']}"
    workspace.client.patch(path, {"metadata": {"labels": {names.DLJOB_LABEL: text}}})


def test_a_label_that_was_taken_from_a_job_and_put_back_leaves_nobody_blind(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for=""))
    workspace.wait_for_phase("train", Phase.RUNNING)
    set_label(workspace, None)
    time.sleep(2)
    set_label(workspace, "train")
    workspace.end_pods("train")
    assert workspace.wait_for_phase("train", Phase.SUCCEEDED)["attempts"] == 1


def test_a_job_without_its_label_is_suspended_and_followed(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for=""))
    workspace.wait_for_phase("train", Phase.RUNNING)
    set_label(workspace, None)
    time.sleep(2)
    edit(workspace, "train", suspend=True)
    waiting.wait_until(lambda: not workspace.client.items(workspace.pods()), "no pods", SECONDS)
    (job,) = jobs(workspace)
    assert job["metadata"]["labels"][names.DLJOB_LABEL] == "train"
    edit(workspace, "train", suspend=False)
    workspace.wait_for_phase("train", Phase.RUNNING)
    set_label(workspace, None)
    workspace.end_pods("train")
    assert workspace.wait_for_phase("train", Phase.SUCCEEDED)["attempts"] == 1
