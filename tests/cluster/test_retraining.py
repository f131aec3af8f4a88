"""What is learned from a cluster: its measurements, read with the rights of the job that learns from them."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.workloads import Workspace, graph_document
from cotenant_api import graph, measurement, names
from cotenant_api.names import GPUModel
from cotenant_e2e import client as clients
from cotenant_e2e import installation
from cotenant_e2e.cluster import KubectlError
from cotenant_operator import measurements_command
from cotenant_operator.learning import ledger
from cotenant_predictor.datasets import measurements

RETRAINING = installation.MANIFESTS / "retraining"
ACCOUNT = "cotenant-retraining"


@pytest.fixture
def account(workspace: Workspace) -> Iterator[Path]:
    """A kubeconfig of the account, while the manifests are applied."""
    cluster = workspace.installation.cluster
    cluster.kubectl("apply", "--server-side", "--kustomize", str(RETRAINING))
    yield cluster.kubeconfig_for_token(ACCOUNT, cluster.token(names.RELEASE_NAMESPACE, ACCOUNT))
    cluster.kubectl("delete", "--kustomize", str(RETRAINING), "--wait=false")


def line(document: graph.Graph) -> measurement.Measurement:
    values = measurement.Values(utilization=40.0, memory_peak_mib=1000)
    missing = [key for key, value in values.model_dump(by_alias=True).items() if value is None]
    return measurement.Measurement(
        id="pod",
        group=document.digest,
        graph=document.digest,
        gpu_model=GPUModel("NVIDIA-H200"),
        mechanism=measurement.Mechanism.ALONE,
        duration_seconds=60.0,
        outcome=measurement.Outcome.OK,
        simulated=True,
        values=values,
        reasons=dict.fromkeys(missing, "no agent sees it"),
        environment=measurement.Environment(driver="d", cuda="c", torch="t", cpu="x", commit="y"),
    )


def test_the_account_collects_measurements_of_all_namespaces_and_reads_nothing_else(
    workspace: Workspace, account: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = graph_document()
    kept = ledger.EMPTY.with_lines([line(document)])
    manifest = ledger.manifest(workspace.namespace, kept, {document.digest: ledger.packed(document)})
    workspace.client.create(clients.path_of("configmaps", namespace=workspace.namespace), manifest)
    arguments = argparse.Namespace(kubeconfig=account, namespace="default", all_namespaces=True)
    assert measurements_command.run(arguments) == 0
    file = tmp_path / "measured.jsonl"
    file.write_text(capsys.readouterr().out)
    read = measurements.load([file], simulated=True)
    assert document.digest in {record.graph for record in read.records}
    cluster = workspace.installation.cluster
    with pytest.raises(KubectlError, match="forbidden"):
        cluster.kubectl("get", "configmaps", "--all-namespaces", user=ACCOUNT)


def test_the_policy_names_the_model_that_predicts(workspace: Workspace) -> None:
    path = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
    named = (workspace.client.get(path).get("status") or {}).get("model") or {}
    assert named["active"].startswith("default-1@sha256:")
    assert "candidate" not in named
