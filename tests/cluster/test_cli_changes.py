"""`cotenant submit`, `node drain` and `doctor` on a real control plane, as its administrator."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cluster.workloads import SECONDS, Workspace, graph_document, template
from cotenant_api import cli, findings, names
from cotenant_api.dljob import Phase
from cotenant_cli.reading import installation, kinds, kube, live, renewals
from cotenant_e2e import client as clients
from cotenant_e2e import components, waiting

IMAGE = "registry.example/other:2"
H200 = "NVIDIA-H200"
T4_NODE, T4 = "t4-0", "Tesla-T4"
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command as the administrator; its exit code, and what it prints."""
    kubeconfig = workspace.installation.cluster.kubeconfig()

    def ran(*words: str) -> tuple[int, str]:
        at = words.index("--") if "--" in words else len(words)
        code = cli.main([*words[:at], "--kubeconfig", str(kubeconfig), *words[at:]])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return ran


@pytest.fixture
def node(workspace: Workspace) -> Iterator[str]:
    """The only node with GPUs of its model; open again at the end."""
    yield T4_NODE
    workspace.client.patch(clients.path_of("nodes", name=T4_NODE), {"spec": {"unschedulable": None}})


def test_a_graph_becomes_a_job_that_runs_on_what_the_trial_said(workspace: Workspace, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(graph_document().to_json())
    words = [
        "submit",
        str(path),
        "-n",
        workspace.namespace,
        "--image",
        "registry.example/train:1",
        "--gpu-models",
        H200,
    ]
    for dry_run in ("client", "server"):
        code, said = run(*words, f"--dry-run={dry_run}")
        assert code == 0, said
    titles, row = (line.split() for line in said.splitlines()[2:4])
    expected = dict(zip(titles, row, strict=False))
    assert workspace.client.find(workspace.dljobs("small")) is None
    code, said = run(*words, "--", "python", "train.py")
    assert (code, said.splitlines()[1]) == (0, "dljob.cotenant.dev/small serverside-applied")
    status = workspace.wait_for_phase("small", Phase.RUNNING)
    (gpu,) = status["replicas"][0]["gpus"]
    assert (str(gpu["share"]), str(gpu["memoryMiB"])) == (expected["BOOKED%"], expected["MIB"])
    code, again = run(*words, "-o", "json", "--", "python", "train.py")
    config_map, job = json.loads(again)["items"]
    assert (code, job["metadata"]["generation"]) == (0, 1)
    assert config_map["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert {one["manager"] for one in config_map["metadata"]["managedFields"]} == {"cotenant-submit"}


def test_a_script_becomes_a_job_and_is_followed_to_its_end(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("")
    kubeconfig = str(workspace.installation.cluster.kubeconfig())
    words = ["submit", str(tmp_path / "train.py"), "-n", workspace.namespace, "--image", IMAGE, "--user", "1000"]
    words += ["--follow", "--kubeconfig", kubeconfig, "--", "--epochs", "3"]
    command = Path(sys.executable).with_name("cotenant")
    with subprocess.Popen([command, *words], stdout=subprocess.PIPE, text=True) as followed:
        try:
            waiting.wait_until(lambda: workspace.client.find(workspace.dljobs("train")), "a DLJob", SECONDS)
            (replica,) = workspace.wait_for_phase("train", Phase.RUNNING)["replicas"]
            (job,) = workspace.client.items(workspace.jobs())
            workspace.end_pods("train")
            said, _ = followed.communicate(timeout=SECONDS)
        finally:
            followed.kill()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert [*container["command"], *container["args"]][-2:] == ["--epochs", "3"]
    assert followed.returncode == 0
    assert f"on {replica['node']}: 100 % of GPU {replica['gpus'][0]['uuid']}" in said
    assert said.splitlines()[-1].startswith("Succeeded")
    # What has ended runs no more, whatever is sent.
    again = subprocess.run([command, *words], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert again.returncode == 1
    assert "has ended (Succeeded) and does not run again: choose another --name" in again.stderr


def test_fields_of_others_are_left_to_them_unless_forced(workspace: Workspace, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(graph_document().to_json())
    workspace.dljob("small", suspend=True, template=template(), gpuMemory="1Gi")
    words = [
        "submit",
        str(path),
        "-n",
        workspace.namespace,
        "--image",
        "registry.example/other:2",
        "--gpu-memory",
        "2Gi",
    ]
    code, said = run(*words)
    assert code == 1
    assert "409" in said
    assert "--force-conflicts" in said
    code, said = run(*words, "--force-conflicts")
    assert code == 0, said
    assert workspace.client.get(workspace.dljobs("small"))["spec"]["gpuMemory"] == "2Gi"


def test_a_node_is_drained_as_a_budget_allows(workspace: Workspace, run: Run, node: str) -> None:
    model = workspace.graph("graph", graph_document(flops=10**6))
    for name in ("free", "kept"):
        workspace.dljob(name, model=model, gpuModels=[T4], template=template(run_for=""))
        workspace.wait_for_phase(name, Phase.RUNNING)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {names.DLJOB_LABEL: "kept"}}},
    }
    budgets = clients.path_of("poddisruptionbudgets", group="policy", namespace=workspace.namespace)
    workspace.client.create(budgets, budget)
    code, said = run("node", "drain", node, "--timeout", "3")
    assert code == 1, said
    assert re.search(rf"pod/{workspace.namespace}/free\S* evicted", said)
    assert re.search(rf"pod/{workspace.namespace}/kept\S* is not evicted yet: .*disruption budget", said)
    assert workspace.client.get(clients.path_of("nodes", name=node))["spec"]["unschedulable"] is True
    workspace.client.delete(f"{budgets}/kept")
    code, said = run("node", "drain", node, "--timeout", str(SECONDS), "-o", "json")
    assert code == 0, said
    found, _ = json.JSONDecoder().raw_decode(said)
    assert (found["drained"], found["tenants"]) == (True, 0)
    assert [one.startswith(f"{workspace.namespace}/kept") for one in found["evicted"]] == [True]
    waiting.wait_until(lambda: workspace.phase("free") == Phase.QUEUED, "the evicted job in the queue again", SECONDS)


def test_what_watches_keep_is_what_is_there(workspace: Workspace) -> None:
    connection = kube.Connection(workspace.installation.cluster.kubeconfig(), None)
    kept = live.Live(connection, namespace=workspace.namespace)
    assert len({gpu.uuid for node in kept.seen().nodes for gpu in node.status.gpus}) == 20
    workspace.pod("new", 5)
    waiting.wait_until(lambda: any(pod.placement for pod in kept.seen().pods), "the pod with its placement", SECONDS)
    workspace.client.delete(workspace.pods("new"))
    waiting.wait_until(lambda: not kept.seen().pods, "no pod", SECONDS)
    kept.close()


def test_pods_that_nobody_makes_again_are_ended_only_with_force(workspace: Workspace, run: Run, node: str) -> None:
    workspace.pod("alone", 5, annotations={names.GPU_MODELS: T4})
    workspace.bound_pod("alone")
    code, said = run("node", "drain", node)
    assert code == 2
    assert f"nobody makes {workspace.namespace}/alone again" in said
    assert not workspace.client.get(clients.path_of("nodes", name=node))["spec"].get("unschedulable")
    code, said = run("node", "drain", node, "--force", "--timeout", str(SECONDS))
    assert code == 0, said


def test_a_doctor_finds_nothing_but_that_the_operator_is_no_pod(run: Run) -> None:
    def settled() -> bool:
        code, said = run("doctor", "-o", "json")
        found = json.loads(said)["findings"]
        assert code == 0, said
        assert {"leader", "agent-leases", "admission", "crds", "rights"} <= {one["check"] for one in found}
        wrong = [one["where"] for one in found if one["level"] != findings.Level.OK]
        return wrong == [f"{names.RELEASE_NAMESPACE}/{names.OPERATOR_ACCOUNT}"]

    waiting.wait_until(settled, "a cluster that has settled", SECONDS)


def test_a_doctor_sees_who_renews_a_lease_whatever_its_clock(workspace: Workspace) -> None:
    leases = clients.path_of("leases", group="coordination.k8s.io", namespace=workspace.namespace)
    count = 0

    def behind() -> str:
        nonlocal count
        count += 1
        return (datetime.now(UTC) - timedelta(hours=1) + timedelta(microseconds=count)).isoformat()

    for name in ("alive", "dead"):
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": behind()}
        workspace.client.create(leases, {"metadata": {"name": name}, "spec": spec})
    lists = kube.Lists(workspace.installation.cluster.kubeconfig(), None)
    found = {kinds.LEASES: lists(leases, installation.whole)}
    seen = installation.Installation(namespace=workspace.namespace, now=datetime.now(UTC), objects=found)

    def renews(_: float) -> None:
        workspace.client.patch(f"{leases}/alive", {"spec": {"renewTime": behind()}})

    assert renewals.watched(lists, seen, pause=renews).renewed == {"alive"}


def test_kubectl_completes_the_plugin_by_the_program_beside_it(workspace: Workspace) -> None:
    kubectl, *_ = components.kubectl(workspace.installation.cluster.settings, user="admin")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [kubectl, "__complete", "cotenant", "node", "dr"]
    ran = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=True, timeout=SECONDS)
    assert re.match(r"drain\t.*\n:4\n", ran.stdout), ran.stderr
