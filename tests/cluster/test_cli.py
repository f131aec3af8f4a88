"""`cotenant why`, `top` and `node` on a real control plane, by an account that may list five kinds and no more."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.workloads import SECONDS, Workspace, graph_document, placement_of, template
from cotenant_api import cli, names, places
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting

Ask = Callable[..., str]


@pytest.fixture
def ask(reader: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs a command as that account; what it prints."""

    def asked(*words: str) -> str:
        code = cli.main([*words, "--kubeconfig", str(reader)])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    return asked


def gpus(ask: Ask, *words: str) -> list[dict[str, Any]]:
    return list(json.loads(ask("top", "-o", "json", *words))["gpus"])


def test_why_says_of_a_waiting_job_what_its_condition_says(workspace: Workspace, ask: Ask) -> None:
    workspace.dljob("waits", model=workspace.graph("graph"), gpuModels=["Tesla-P4"])
    workspace.wait_for_condition("waits", "Queued", "True", "GPUModelMismatch")

    def same() -> bool:
        said = ask("why", f"{workspace.namespace}/waits")
        words = workspace.condition("waits", "Queued")["message"]
        return places.position(words) is not None and f"GPUModelMismatch: {words}" in said

    waiting.wait_until(same, "the words of the condition", SECONDS)


def test_why_says_of_a_waiting_pod_what_its_condition_says(workspace: Workspace, ask: Ask) -> None:
    workspace.pod("waits", 40, annotations={names.GPU_MODELS: "Tesla-P4"})

    def same() -> bool:
        found = json.loads(ask("why", "waits", "-n", workspace.namespace, "-o", "json"))
        packed = workspace.packed("waits")
        return bool(packed) and (found["reason"], found["message"]) == (packed["reason"], packed["message"])

    waiting.wait_until(same, "the words of the condition", SECONDS)


def test_why_says_of_a_placed_job_its_node_gpu_share_and_neighbours(workspace: Workspace, ask: Ask) -> None:
    waiting.wait_until(lambda: not any(gpu["tenantCount"] for gpu in gpus(ask)), "GPUs that nobody holds", SECONDS)
    model = workspace.graph("graph", graph_document(flops=10**6))
    workspace.dljob("runs", model=model, gpuModels=["NVIDIA-H200"], template=template(run_for=""))
    (placed,) = workspace.wait_for_phase("runs", Phase.RUNNING)["replicas"]
    workspace.pod("beside", 5, annotations={names.GPU_MODELS: "NVIDIA-H200", names.GPU_MEMORY: "1Gi"})
    (booked,) = placement_of(workspace.bound_pod("beside"))["gpus"]
    found = json.loads(ask("why", f"{workspace.namespace}/runs", "-o", "json"))
    (replica,) = found["replicas"]
    (part,) = replica["gpus"]
    (gpu,) = placed["gpus"]
    assert found["reason"] == "Placed"
    assert (replica["pod"], replica["node"]) == (placed["pod"], placed["node"])
    assert (part["uuid"], part["share"], part["model"]) == (gpu["uuid"], gpu["share"], "NVIDIA-H200")
    assert booked["uuid"] == gpu["uuid"]
    assert part["neighbours"] == [{"namespace": workspace.namespace, "pod": "beside", "share": 5}]
    said = ask("why", f"{workspace.namespace}/runs")
    for words in (placed["node"], f"{workspace.namespace}/beside (5)", "the first GPU that fits"):
        assert words in said


def test_top_shows_every_gpu_and_that_it_is_simulated(workspace: Workspace, ask: Ask) -> None:
    nodes = workspace.client.items(clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION))
    there = {(node["metadata"]["name"], gpu["uuid"]) for node in nodes for gpu in node["status"]["gpus"]}
    assert {(gpu["node"], gpu["uuid"]) for gpu in gpus(ask)} == there
    text = ask("top")
    assert len(re.findall(r"^\S+ +\d+ +\S+ +\d+ .*(?:Healthy|NotReady)$", text, re.MULTILINE)) == len(there) == 20
    assert "simulated" in text


def test_top_shows_what_was_predicted_beside_what_is_booked(workspace: Workspace, ask: Ask) -> None:
    workspace.dljob("runs", model=workspace.graph("graph"), template=template(run_for=""))
    status = workspace.wait_for_phase("runs", Phase.RUNNING)

    def shown() -> bool:
        found = gpus(ask, "-n", workspace.namespace)
        return [tenant["observed"] is not None for gpu in found for tenant in gpu["tenants"]] == [True]

    waiting.wait_until(shown, "the tenant observed", SECONDS)
    (gpu,) = gpus(ask, "-n", workspace.namespace)
    (tenant,) = gpu["tenants"]
    (replica,) = status["replicas"]
    assert (gpu["node"], gpu["uuid"]) == (replica["node"], replica["gpus"][0]["uuid"])
    assert tenant["booked"]["share"] == replica["gpus"][0]["share"] == gpu["bookedShare"]
    assert tenant["predicted"]["memoryMiB"] == tenant["booked"]["memoryMiB"] == status["prediction"]["memoryMiB"]


def test_who_is_not_there_is_told_with_the_remedy(
    workspace: Workspace, reader: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["why", f"{workspace.namespace}/nobody", "--kubeconfig", str(reader)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.match(r"cotenant: why: JOB: '\S+/nobody': .*kubectl get dljobs,pods", captured.err)


def test_node_shows_what_is_on_it_and_draining_would_move(workspace: Workspace, ask: Ask) -> None:
    model = workspace.graph("graph", graph_document(flops=10**6))
    workspace.dljob("runs", model=model, template=template(run_for=""))
    (replica,) = workspace.wait_for_phase("runs", Phase.RUNNING)["replicas"]
    workspace.pod("alone", 5, nodeSelector={"kubernetes.io/hostname": replica["node"]})
    workspace.bound_pod("alone")
    said = ask("node", "show", replica["node"])
    for words in ("AgentReady", replica["pod"], "are simulated"):
        assert words in said
    found = json.loads(ask("node", "drain", replica["node"], "--dry-run", "-o", "json"))
    after = {one["pod"]: one["after"] for one in found["pods"] if one["namespace"] == workspace.namespace}
    assert after == {replica["pod"]: "QueuedAgain", "alone": "Gone"}
    assert not workspace.client.get(clients.path_of("nodes", name=replica["node"]))["spec"].get("unschedulable")
