"""Requests of the pod itself with overhead, as kube-scheduler and the extender count them."""

from collections.abc import Iterator

import pytest

from cluster.workloads import SECONDS, Workspace
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting

CLASSES = clients.path_of("runtimeclasses", group="node.k8s.io")
NODE = {"kubernetes.io/hostname": "t4-0"}


@pytest.fixture
def heavy(workspace: Workspace) -> Iterator[str]:
    """A RuntimeClass that costs four CPUs a pod."""
    name = f"{workspace.namespace}-heavy"
    body = {"metadata": {"name": name}, "handler": "runc", "overhead": {"podFixed": {"cpu": "4"}}}
    workspace.client.create(CLASSES, body)
    yield name
    workspace.client.delete(f"{CLASSES}/{name}")


def test_a_pod_whose_own_requests_fit_only_without_its_overhead_keeps_its_gate(
    workspace: Workspace, heavy: str
) -> None:
    cpus = int(workspace.client.get(clients.path_of("nodes", name="t4-0"))["status"]["allocatable"]["cpu"])
    for name, cpu in (("wide", cpus - 2), ("narrow", cpus - 4)):
        workspace.pod(name, 10, nodeSelector=NODE, runtimeClassName=heavy, resources={"requests": {"cpu": str(cpu)}})
    workspace.bound_pod("narrow")
    workspace.client.delete(workspace.pods("narrow"))
    waiting.wait_until(lambda: bool(workspace.packed("wide")), "told", SECONDS)
    waiting.wait_until(
        lambda: workspace.packed("wide")["reason"] == "InsufficientHostResources", "short of cpu", SECONDS
    )
    wide = workspace.client.get(workspace.pods("wide"))
    assert wide["spec"]["overhead"] == {"cpu": "4"}
    assert wide["spec"]["schedulingGates"] == [{"name": names.PACKING_GATE}]
    assert "short of cpu" in workspace.packed("wide")["message"]
