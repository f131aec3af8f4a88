"""What is learned from a cluster: its measurements, read with the rights of the job that learns from them."""

import argparse
import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import tenants
from cluster.workloads import Workspace, graph_document
from cotenant_api import graph, measurement, names
from cotenant_api.names import GPUModel
from cotenant_e2e import client as clients
from cotenant_e2e import installation
from cotenant_e2e.client import Json
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


def configmap(namespace: str, name: str = "") -> str:
    return clients.path_of("configmaps", namespace=namespace, name=name)


def kept(namespace: str, *, release: str = names.RELEASE_NAMESPACE) -> Json:
    """The ConfigMap of a namespace's measurements, with one line and its graph."""
    document = graph_document()
    lines = ledger.EMPTY.with_lines([line(document)])
    packed = base64.b64encode(document.packed()).decode()
    return ledger.manifest(namespace, lines, {document.digest: packed}, release=release)


@pytest.fixture
def measured(workspace: Workspace) -> Iterator[str]:
    """A namespace of which the operator has kept measurements."""
    name = f"{workspace.namespace}-measured"
    workspace.client.create(configmap(names.RELEASE_NAMESPACE), kept(name))
    yield name
    workspace.client.delete(configmap(names.RELEASE_NAMESPACE, ledger.name_of(name)))


def collected(account: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the account collects of all namespaces."""
    arguments = argparse.Namespace(
        kubeconfig=account, namespace="default", all_namespaces=True, release_namespace=names.RELEASE_NAMESPACE
    )
    assert measurements_command.run(arguments) == 0
    return capsys.readouterr().out


def test_the_account_collects_what_the_operator_kept_and_reads_nothing_elsewhere(
    workspace: Workspace, account: Path, measured: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "measured.jsonl"
    file.write_text(collected(account, capsys))
    read = measurements.load([file], simulated=True)
    assert measured in {record.namespace for record in read.records}
    cluster = workspace.installation.cluster
    with pytest.raises(KubectlError, match="forbidden"):
        cluster.kubectl("get", "configmaps", "--all-namespaces", user=ACCOUNT)
    with pytest.raises(KubectlError, match="forbidden"):
        cluster.kubectl("get", "configmaps", "--namespace", workspace.namespace, user=ACCOUNT)


def test_what_a_tenant_writes_is_not_collected(
    workspace: Workspace, account: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant, own = tenants.create(workspace), workspace.namespace
    for name in ("cotenant-measurements", ledger.name_of(own)):
        forged = kept(own, release=own)
        tenant.client.create(configmap(own), forged | {"metadata": forged["metadata"] | {"name": name}})
    assert f'"namespace":"{own}"' not in collected(account, capsys)


def test_a_tenant_neither_reads_nor_writes_measurements(
    workspace: Workspace, measured: str, refused: Callable[[Callable[[], Any]], str]
) -> None:
    tenant = tenants.create(workspace).client
    path = configmap(names.RELEASE_NAMESPACE, ledger.name_of(measured))
    for attempt in (
        lambda: tenant.create(configmap(names.RELEASE_NAMESPACE), kept(workspace.namespace)),
        lambda: tenant.patch(path, {"data": {ledger.KEY: ""}}),
        lambda: tenant.delete(path),
        lambda: tenant.get(path),
    ):
        assert "cannot" in refused(attempt)


def test_the_policy_names_the_model_that_predicts(workspace: Workspace) -> None:
    path = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
    named = (workspace.client.get(path).get("status") or {}).get("model") or {}
    assert named["active"].startswith("default-1@sha256:")
    assert "candidate" not in named
