"""Amounts that no node has, and gates that nobody here sets: taken by Kubernetes, and told by us."""

from typing import Final

import pytest

from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, SECONDS, Workspace, template
from cotenant_e2e import waiting

L4: Final = {"kubernetes.io/hostname": "l4-0"}


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_job_that_asks_for_more_than_any_node_has_is_told_what(workspace: Workspace, resource: str) -> None:
    made = template()
    made["spec"]["containers"] = [CONTAINER | {"resources": {"limits": {resource: "1e60"}}}]
    workspace.dljob("huge", template=made)

    def told() -> str:
        return str(workspace.condition("huge", "Queued").get("message", ""))

    waiting.wait_until(lambda: f"short of {resource}" in told(), f"{resource} is named", SECONDS)


def test_a_pod_that_cannot_run_on_a_node_makes_no_secret_of_what_it_asks(tenant: Tenant, honest: Workspace) -> None:
    """It names its node itself; kube-scheduler would count it in the same way."""
    container = {"name": "main", "image": "i:1", "resources": {"requests": {"memory": "1e60"}}}
    spec = {"nodeName": "l4-0", "tolerations": [{"operator": "Exists"}], "containers": [container]}
    tenant.client.create(tenant.workspace.pods(), {"metadata": {"name": "huge"}, "spec": spec})
    waiting.wait_until(lambda: "nodeName" in tenant.client.get(tenant.workspace.pods("huge"))["spec"], "there", SECONDS)
    honest.pod("wants", 100, nodeSelector=L4)
    waiting.wait_until(lambda: bool(honest.packed("wants")), "told", SECONDS)
    assert "without readable placement" not in honest.packed("wants")["message"]
    tenant.client.delete(tenant.workspace.pods("huge"), gracePeriodSeconds="0")
    honest.bound_pod("wants")


def test_a_gate_of_the_author_is_named(workspace: Workspace) -> None:
    workspace.dljob("gated", gpuMemory="1Gi", template=template(schedulingGates=[{"name": "example.org/hold"}]))

    def told() -> str:
        return str(workspace.condition("gated", "Queued").get("message", ""))

    waiting.wait_until(lambda: "example.org/hold" in told(), "the gate is named", SECONDS)
