"""A snapshot of a real API server by an account that may list five kinds, and what a policy would change there."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.workloads import SECONDS, Workspace, template
from cotenant_api import cli, errors, names
from cotenant_api.dljob import Phase
from cotenant_cli.reading import kube
from cotenant_e2e import waiting
from cotenant_simulator.live import snapshot, taking

SECRET = "hunter2-planted"


def secretive(run_for: str) -> dict[str, Any]:
    """A pod template with a secret wherever a user may write one."""
    made = template(run_for=run_for)
    made["metadata"]["annotations"]["example.com/token"] = SECRET
    made["spec"]["containers"] = [
        made["spec"]["containers"][0]
        | {"env": [{"name": "TOKEN", "value": SECRET}], "args": [SECRET], "command": ["run", SECRET]}
    ]
    return made


def fill(workspace: Workspace) -> None:
    """A DLJob that has ended, one that runs, and a pod that waits for a GPU that is not there."""
    model = workspace.graph("graph")
    for name, run_for in (("ended", "1s"), ("running", "")):
        workspace.dljob(name, model=model, template=secretive(run_for))
    workspace.pod("gated", 60, annotations={names.GPU_MODELS: "NVIDIA-Nowhere"})
    workspace.wait_for_phase("ended", Phase.SUCCEEDED)
    workspace.wait_for_phase("running", Phase.RUNNING)
    waiting.wait_until(lambda: bool(workspace.packed("gated")), "gated pod told", SECONDS)


def taken(reader: Path, tmp_path: Path, *more: str) -> snapshot.Snapshot:
    file = tmp_path / "snapshot.json"
    assert cli.main(["snapshot", "--kubeconfig", str(reader), "-o", str(file), *more]) == 0
    return snapshot.Snapshot.from_json(file.read_text(), source=str(file))


def test_a_snapshot_holds_the_cluster_and_no_secret_and_a_proposal_is_simulated_on_it(
    workspace: Workspace, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(workspace)
    whole = taken(reader, tmp_path)
    mine = [pod for pod in whole.pods if pod.namespace == workspace.namespace]
    assert sorted((pod.dljob or pod.name, pod.phase) for pod in mine) == [
        ("ended", "Succeeded"),
        ("gated", "Pending"),
        ("running", "Running"),
    ]
    assert sum(len(node.gpus) for node in whole.nodes) == 20
    assert all(node.served for node in whole.nodes)
    assert whole.policy is not None
    assert SECRET not in whole.to_json()
    assert all(pod.believed is not None and pod.placement for pod in mine if pod.dljob)
    capsys.readouterr()

    policy = tmp_path / "proposed.yaml"
    metadata = {"name": "default"}
    spec = {"maxTenantsPerGPU": 1}
    policy.write_text(
        yaml.safe_dump({"apiVersion": names.API_VERSION, "kind": "PackingPolicy", "metadata": metadata, "spec": spec})
    )
    files = ["--snapshot", str(tmp_path / "snapshot.json"), "--policy", str(policy)]
    assert cli.main(["simulate", "cluster", *files, "--seeds", "0", "--processes", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    named = f"{workspace.namespace}/gated"
    for plan in found["plans"]:
        assert [one["reason"] for one in plan["rejected"] if one["name"] == named] == ["GPUModelMismatch"]
    assert {"field": "spec.maxTenantsPerGPU", "before": "3", "after": "1"} in found["changes"]


def test_the_cluster_itself_is_simulated_where_no_snapshot_is_named(
    workspace: Workspace, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace.pod("a", 60, annotations={"demo.cotenant.dev/run-for": "3600s"})
    workspace.bound_pod("a")
    policy = Path(__file__).parents[2] / "manifests" / "policy.yaml"
    words = ["--kubeconfig", str(reader), "--policy", str(policy), "--seeds", "0", "--processes", "1", "--json"]
    assert cli.main(["simulate", "cluster", *words]) == 0
    assert json.loads(capsys.readouterr().out)["snapshot"]["jobs"]["running"] >= 1


def test_a_redacted_snapshot_names_nothing_of_the_cluster(workspace: Workspace, reader: Path, tmp_path: Path) -> None:
    workspace.pod("named-pod", 60)
    text = taken(reader, tmp_path, "--redact").to_json()
    assert not [word for word in ("named-pod", workspace.namespace, "h200-0") if word in text]


def uid_of(raw: taking.Object) -> str:
    return str(raw["metadata"]["uid"])


def test_the_role_of_a_reader_reads_no_secret(reader: Path) -> None:
    for path in ("/api/v1/secrets", "/api/v1/configmaps"):
        with pytest.raises(errors.PermanentError, match="forbidden"):
            kube.Lists(reader, None)(path, uid_of)


def test_pages_together_are_the_whole_list(workspace: Workspace, reader: Path) -> None:
    for number in range(7):
        workspace.pod(f"p{number}", 1)
    whole = kube.Lists(reader, None)(taking.PODS, uid_of)
    paged = kube.Lists(reader, None, page=2)(taking.PODS, uid_of)
    assert sorted(paged) == sorted(whole)
    assert len(whole) >= 7
