"""Attempts and their ends on a real control plane: the test writes what a kubelet would of pods that ended."""

import json
import math
from typing import Any

from cluster.workloads import SECONDS, Workspace, graph_document, placement_of, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting

Json = dict[str, Any]

CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 2 GiB\n"


def living(workspace: Workspace, attempt: int, count: int = 1) -> list[Json]:
    """The pods of an attempt, when so many of them run."""
    found: list[Json] = []

    def ran() -> bool:
        pods = workspace.client.items(workspace.pods())
        found[:] = [
            pod
            for pod in pods
            if pod["metadata"]["labels"].get(names.ATTEMPT_LABEL) == str(attempt)
            and pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]
        return len(found) == count

    waiting.wait_until(ran, f"{count} pods of attempt {attempt} running", SECONDS)
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def write_status(workspace: Workspace, pod: Json, **status: Any) -> None:
    """Write a pod's status, as its kubelet does."""
    workspace.client.patch(f"{workspace.pods(pod['metadata']['name'])}/status", {"status": status})


def end(workspace: Workspace, pod: Json, *, code: int, message: str = "") -> None:
    """End a pod's container with an exit code and last words."""
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}
    state = {**pod["status"]["containerStatuses"][0], "ready": False, "started": False, "state": {"terminated": ended}}
    write_status(workspace, pod, phase="Failed" if code else "Succeeded", containerStatuses=[state])


def told(workspace: Workspace) -> list[str]:
    """What was told of attempts that failed."""
    return [str(event["message"]) for event in workspace.events() if event["reason"] == "AttemptFailed"]


def job(workspace: Workspace, name: str) -> Json:
    return workspace.client.get(f"{workspace.jobs()}/{name}")


def test_a_job_that_runs_out_of_gpu_memory_twice_succeeds_with_more(workspace: Workspace) -> None:
    model = workspace.graph("graph", graph_document(flops=10**6, repeat=10))
    workspace.dljob("train", model=model, gpuModels=["Tesla-T4"], backoffLimit=0, template=template(run_for=""))
    booked = []
    for attempt in (1, 2):
        (pod,) = living(workspace, attempt)
        booked.append(placement_of(pod)["gpus"][0]["memoryMiB"])
        end(workspace, pod, code=1, message=CUDA)
    (pod,) = living(workspace, 3)
    booked.append(placement_of(pod)["gpus"][0]["memoryMiB"])
    end(workspace, pod, code=0)
    workspace.wait_for_phase("train", Phase.SUCCEEDED)
    assert booked[1:] == [math.ceil(booked[0] * 1.5), math.ceil(math.ceil(booked[0] * 1.5) * 1.5)]
    assert workspace.status("train")["attempts"] == 3
    first, second = sorted(told(workspace))
    assert "attempt 1 ran out of GPU memory" in first
    assert f"{booked[0]} MiB were booked" in first
    assert second.endswith(f"attempt 3 gets {booked[2]} MiB of GPU memory")


def test_a_gang_of_four_of_which_one_member_fails_begins_anew(workspace: Workspace) -> None:
    workspace.dljob("gang", replicas=4, backoffLimit=1, model=workspace.graph("graph"), template=template(run_for=""))
    members = living(workspace, 1, count=4)
    service = workspace.client.get(clients.path_of("services", namespace=workspace.namespace, name="gang-gang"))
    assert service["spec"]["clusterIP"] == "None"
    assert sorted(pod["spec"]["hostname"] for pod in members) == [f"gang-1-{index}" for index in range(4)]
    assert {pod["spec"]["subdomain"] for pod in members} == {"gang-gang"}
    end(workspace, members[2], code=1, message="ValueError: no data\n")
    again = living(workspace, 2, count=4)
    environment = {item["name"]: item.get("value") for item in again[0]["spec"]["containers"][0]["env"]}
    assert (environment["COTENANT_ATTEMPT"], environment["COTENANT_MAY_RESUME"]) == ("2", "true")
    assert environment["MASTER_ADDR"] == "gang-2-0.gang-gang"
    (words,) = told(workspace)
    assert "ValueError: no data" in words
    for pod in again:
        end(workspace, pod, code=0)
    workspace.wait_for_phase("gang", Phase.SUCCEEDED)


def test_a_pod_that_kubelet_does_not_admit_is_made_again_and_counts_against_no_limit(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), backoffLimit=0, template=template(run_for=""))
    (pod,) = living(workspace, 1)
    write_status(
        workspace,
        pod,
        phase="Failed",
        reason="UnexpectedAdmissionError",
        message="Pod was rejected: Allocate failed due to no healthy devices present",
        containerStatuses=None,
    )
    (pod,) = living(workspace, 2)
    assert job(workspace, "train-2")["spec"]["backoffLimit"] == 0
    (words,) = told(workspace)
    assert "before any container started: UnexpectedAdmissionError" in words
    assert "counts against no limit" in words
    end(workspace, pod, code=0)
    workspace.wait_for_phase("train", Phase.SUCCEEDED)


def test_suspending_while_an_attempt_is_ended_is_honoured(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for=""))
    (pod,) = living(workspace, 1)
    end(workspace, pod, code=1, message=CUDA)
    workspace.client.patch(workspace.dljobs("train"), {"spec": {"suspend": True}})
    workspace.wait_for_phase("train", Phase.SUSPENDED)
    waiting.wait_until(lambda: not running(workspace), "no pod runs", SECONDS)
    workspace.client.patch(workspace.dljobs("train"), {"spec": {"suspend": False}})
    (pod,) = living_of_any_attempt(workspace)
    end(workspace, pod, code=0)
    workspace.wait_for_phase("train", Phase.SUCCEEDED)


def running(workspace: Workspace) -> list[Json]:
    pods = workspace.client.items(workspace.pods())
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


def living_of_any_attempt(workspace: Workspace) -> list[Json]:
    waiting.wait_until(lambda: len(running(workspace)) == 1, "one pod runs", SECONDS)
    return running(workspace)


def serving(workspace: Workspace, revision: str | None) -> list[Json]:
    """The running pods of one template of a Deployment, when there are any."""
    found: list[Json] = []

    def run() -> bool:
        found[:] = [
            pod
            for pod in workspace.client.items(workspace.pods())
            if pod["metadata"]["annotations"].get(f"{names.GROUP}/revision") == revision
            and pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]
        return bool(found)

    waiting.wait_until(run, f"a pod of revision {revision} running", SECONDS)
    return found


def test_a_deployment_whose_pods_run_out_of_gpu_memory_is_rolled_with_more_once(workspace: Workspace) -> None:
    model = workspace.graph("graph", graph_document(flops=10**6, repeat=10))
    wanted = {"workloadType": "Inference", "gpuModels": ["Tesla-T4"], "template": template(run_for="")}
    workspace.dljob("serve", model=model, **wanted)
    (pod,) = serving(workspace, None)
    booked = placement_of(pod)["gpus"][0]["memoryMiB"]
    ended = {"exitCode": 1, "reason": "Error", "message": CUDA, "startedAt": None, "finishedAt": None}
    restarted = {**pod["status"]["containerStatuses"][0], "restartCount": 1, "lastState": {"terminated": ended}}
    write_status(workspace, pod, containerStatuses=[restarted])
    (again,) = serving(workspace, "1")
    assert placement_of(again)["gpus"][0]["memoryMiB"] == math.ceil(booked * 1.5)
    workspace.wait_for_condition("serve", "Ready", "True", "PodsReady")
    (words,) = [str(event["message"]) for event in workspace.events() if event["reason"] == "OutOfMemory"]
    assert f"{booked} MiB were booked" in words
    assert words.endswith(f"; its pods get {math.ceil(booked * 1.5)} MiB of GPU memory")
    deployment = workspace.client.get(f"{workspace.deployments()}/serve")
    remembered = json.loads(deployment["metadata"]["annotations"][f"{names.GROUP}/gpu-memory-shortage"])
    assert (remembered["outOfMemory"], remembered["givenUp"]) == (1, False)
