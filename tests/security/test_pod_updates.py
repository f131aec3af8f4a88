"""What a tenant cannot change of a pod that is there: our gate, and annotations beyond the rules of its creation."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, SECONDS, Workspace, pod_object
from cotenant_api import names
from cotenant_e2e import waiting
from cotenant_e2e.client import Client, Json

Refused = Callable[[Callable[[], Any]], str]

HELD = "example.org/hold"
WRONG: dict[str, tuple[str, str, str]] = {
    "a prediction of 200,000 bytes": (names.PREDICTION, "x" * 200_000, "remove it"),
    "a small prediction": (names.PREDICTION, "{}", "remove it"),
    "a rubbish workload type": (names.WORKLOAD_TYPE, "Play", "must be Training or Inference"),
    "memory below zero": (names.GPU_MEMORY, "-5Gi", 'such as "8Gi"'),
    "memory of no quantity": (names.GPU_MEMORY, "lots", 'such as "8Gi"'),
    "memory that takes seconds to read": (names.GPU_MEMORY, "1e10000000", 'such as "8Gi"'),
    "processes of no number": (names.PROCESSES_PER_GPU, "-1", "must be a whole number"),
    "a minimum of no number": (names.MINIMUM_RUN_SECONDS, "for ever", "must be a whole number of seconds"),
    "a gang of 9 KiB": (names.GANG, "x" * 9000, "must be at most 8 KiB"),
    "an annotation of 9 KiB that nobody knows": (f"{names.GROUP}/more", "x" * 9000, "must be at most 8 KiB"),
    "an earlier place in the queue": (names.QUEUED_SINCE, "2001-01-01T00:00:00Z", "remove it"),
    "an empty prediction": (names.PREDICTION, "", "remove it"),
    "an empty place in the queue": (names.QUEUED_SINCE, "", "remove it"),
    "an empty earmark": (names.EARMARK, "", "remove it"),
    "an empty placement": (names.PLACEMENT, "", "remove it"),
    "an earmark": (names.EARMARK, "{}", "remove it"),
    "a placement": (names.PLACEMENT, "{}", "remove it"),
}
"""Annotation, value and remedy."""
ABOVE: dict[str, tuple[str, str, str]] = {
    "a gang of 1000": (names.GANG, '{"v":1,"name":"a","size":1000}', "set at most 256"),
    "a gang whose size is escaped": (names.GANG, '{"v":1,"name":"a","si\\u007ae":1000}', 'the key "size" once'),
    "a gang whose size has an exponent": (names.GANG, '{"v":1,"name":"a","size":1e3}', "with a plain number"),
    "a gang whose size is text": (names.GANG, '{"v":1,"name":"a","size":"1000"}', "with a plain number"),
    "a minimum of 31 years": (names.MINIMUM_RUN_SECONDS, "999999999", "set at most 3600"),
}
"""Beyond the bounds of the PackingPolicy."""
SETTLED: dict[str, str] = {
    names.GANG: json.dumps({"v": 1, "name": "late", "size": 2}),
    names.GPU_MEMORY: "1Gi",
    names.GPU_MODELS: "NVIDIA-H200",
    names.MINIMUM_RUN_SECONDS: "3600",
    names.PROCESSES_PER_GPU: "2",
    names.WORKLOAD_TYPE: "Inference",
}
"""What counts for a pod as long as it runs, or was booked when it was bound."""


def gated(tenant: Tenant, **annotations: str) -> str:
    """A pod with another gate beside ours; its path."""
    pod = pod_object("p", schedulingGates=[{"name": HELD}], annotations=annotations)
    tenant.client.create(tenant.workspace.pods(), pod)
    return tenant.workspace.pods("p")


@pytest.mark.parametrize(("key", "value", "remedy"), WRONG.values(), ids=list(WRONG))
@pytest.mark.parametrize("way", ["create", "update", "status"])
def test_a_tenant_writes_no_annotation_against_the_rules(
    tenant: Tenant, refused: Refused, way: str, key: str, value: str, remedy: str
) -> None:
    if way == "create":
        pod = pod_object("p", annotations={key: value})
        message = refused(lambda: tenant.client.create(tenant.workspace.pods(), pod))
    else:
        path, patch = gated(tenant), {"metadata": {"annotations": {key: value}}}
        if way == "status":
            # The role `edit` does not let him; a status may carry annotations, too.
            tenant.grant("pods/status", "patch")
            path = f"{path}/status"
        message = refused(lambda: tenant.client.patch(path, patch))
    assert f"metadata.annotations[{key}]: " in message
    assert remedy in message


@pytest.mark.parametrize(("key", "value", "remedy"), ABOVE.values(), ids=list(ABOVE))
def test_a_tenant_creates_nothing_above_the_policys_bounds(
    tenant: Tenant, refused: Refused, key: str, value: str, remedy: str
) -> None:
    pod = pod_object("p", annotations={key: value})
    message = refused(lambda: tenant.client.create(tenant.workspace.pods(), pod))
    assert f"metadata.annotations[{key}]: " in message
    assert remedy in message


@pytest.fixture
def bound(tenant: Tenant, scheduler: Client, own_node: str) -> str:
    """The path of a tenant's pod that is bound."""
    path = tenant.workspace.pods("p")
    tenant.client.create(tenant.workspace.pods(), pod_object("p", annotations={names.GPU_MEMORY: "2Gi"}))
    scheduler.patch(path, {"spec": {"schedulingGates": None}})
    target = {"apiVersion": "v1", "kind": "Node", "name": own_node}
    metadata = {"name": "p", "annotations": {names.PLACEMENT: "{}"}}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    scheduler.create(f"{path}/binding", binding)
    return path


@pytest.mark.parametrize("key", [*SETTLED, names.PREDICTION])
@pytest.mark.parametrize("way", ["update", "status"])
def test_a_tenant_changes_nothing_that_his_bound_pod_asked_for(
    tenant: Tenant, refused: Refused, bound: str, way: str, key: str
) -> None:
    if way == "status":
        tenant.grant("pods/status", "patch")
    path = f"{bound}/status" if way == "status" else bound
    message = refused(lambda: tenant.client.patch(path, {"metadata": {"annotations": {key: SETTLED.get(key, "{}")}}}))
    assert f"metadata.annotations[{key}]: {SETTLED.get(key, '{}')}: the pod is bound" in message


def test_a_tenant_takes_nothing_back_that_his_bound_pod_asked_for(tenant: Tenant, refused: Refused, bound: str) -> None:
    patch = {"metadata": {"annotations": {names.GPU_MEMORY: None}}}
    assert "none: the pod is bound" in refused(lambda: tenant.client.patch(bound, patch))


def test_everything_else_of_a_bound_pod_is_its_authors_and_its_status_is_written(
    tenant: Tenant, workspace: Workspace, bound: str
) -> None:
    tenant.client.patch(bound, {"metadata": {"annotations": {"example.org/a": "b"}, "labels": {"app": "mine"}}})
    tenant.client.patch(bound, {"spec": {"activeDeadlineSeconds": 60}})
    workspace.client.patch(f"{bound}/status", {"status": {"phase": "Running"}})
    assert workspace.client.get(bound)["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    "annotations",
    [{names.GPU_MEMORY: "5Gi"}, {names.WORKLOAD_TYPE: "Inference"}, {names.GPU_MEMORY: None}, {"example.org/a": "b"}],
    ids=["memory", "workload type", "no memory", "another's"],
)
def test_a_tenant_changes_what_is_his_to_change(tenant: Tenant, annotations: Json) -> None:
    path = gated(tenant, **{names.GPU_MEMORY: "2Gi"})
    tenant.client.patch(path, {"metadata": {"annotations": annotations}})


def gates(path: str, client: Client) -> set[str]:
    return {gate["name"] for gate in client.get(path)["spec"].get("schedulingGates", ())}


@pytest.mark.parametrize("left", [[], [{"name": HELD}]], ids=["with all others", "alone"])
@pytest.mark.parametrize("way", ["merge", "json", "replace"])
def test_the_author_of_a_pod_does_not_remove_our_gate(
    tenant: Tenant, refused: Refused, way: str, left: list[Json]
) -> None:
    path = gated(tenant)

    def attempt() -> Any:
        if way == "merge":
            return tenant.client.patch(path, {"spec": {"schedulingGates": left or None}})
        if way == "json":
            operation = {"op": "replace", "path": "/spec/schedulingGates", "value": left}
            return tenant.client.patch(path, [operation], content_type="application/json-patch+json")
        pod = tenant.client.get(path)
        pod["spec"]["schedulingGates"] = left
        return tenant.client.replace(path, pod)

    assert "spec.schedulingGates: cotenant.dev/packing is lifted by the packing queue alone" in refused(attempt)
    assert gates(path, tenant.client) == {names.PACKING_GATE, HELD}


def test_the_administrator_of_a_namespace_does_not_remove_our_gate_and_one_of_the_cluster_may(
    tenant: Tenant, refused: Refused
) -> None:
    path, remove = gated(tenant), {"spec": {"schedulingGates": None}}
    tenant.bind("ClusterRole", "admin")
    waiting.wait_until(lambda: tenant.may("create", "roles.rbac.authorization.k8s.io"), "the role admin", SECONDS)
    assert "spec.schedulingGates" in refused(lambda: tenant.client.patch(path, remove))
    tenant.workspace.client.patch(path, remove)


def test_the_author_removes_a_gate_of_his_own_and_the_scheduler_ours(tenant: Tenant, scheduler: Client) -> None:
    path = gated(tenant)
    tenant.client.patch(path, {"spec": {"schedulingGates": [{"name": names.PACKING_GATE}]}})
    assert gates(path, tenant.client) == {names.PACKING_GATE}
    scheduler.patch(path, {"spec": {"schedulingGates": None}})
    assert gates(path, tenant.client) == set()


def test_gates_of_a_pod_that_asks_for_no_share_are_its_authors(tenant: Tenant) -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [CONTAINER], "schedulingGates": [{"name": names.PACKING_GATE}]},
    }
    tenant.client.create(tenant.workspace.pods(), pod)
    tenant.client.patch(tenant.workspace.pods("p"), {"spec": {"schedulingGates": None}})
    assert gates(tenant.workspace.pods("p"), tenant.client) == set()


@pytest.mark.parametrize("value", [None, "nothing"], ids=["removed", "changed"])
def test_a_tenant_keeps_the_label_by_which_rules_select_his_pod(
    tenant: Tenant, refused: Refused, value: str | None
) -> None:
    path = gated(tenant)
    message = refused(lambda: tenant.client.patch(path, {"metadata": {"labels": {names.ASKS_LABEL: value}}}))
    assert f"metadata.labels[{names.ASKS_LABEL}]: {value or 'none'}: must stay gpu-share" in message
    tenant.client.patch(path, {"metadata": {"labels": {"app": "mine"}}})


@pytest.mark.parametrize("label", [names.DLJOB_LABEL, names.DLJOB_UID_LABEL, names.ATTEMPT_LABEL])
@pytest.mark.parametrize("value", [None, "x"], ids=["taken away", "changed"])
@pytest.mark.parametrize("way", ["update", "status"])
def test_nobody_hides_a_pod_of_a_dljob_from_the_operator(
    workspace: Workspace, refused: Refused, way: str, label: str, value: str | None
) -> None:
    labels = {names.DLJOB_LABEL: "train", names.DLJOB_UID_LABEL: "u", names.ATTEMPT_LABEL: "1", "app": "train"}
    workspace.client.create(workspace.pods(), {**pod_object("p"), "metadata": {"name": "p", "labels": labels}})
    path = workspace.pods("p") + ("/status" if way == "status" else "")
    message = refused(lambda: workspace.client.patch(path, {"metadata": {"labels": {label: value}}}))
    assert f"metadata.labels[{label}]: by it the operator finds the pods of DLJob train; leave it" in message
    workspace.client.patch(path, {"metadata": {"labels": {"app": None}}})
