"""What the token of kube-scheduler and the extender is good for once it is somebody else's."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.workloads import CONTAINER, Workspace, pod_object
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e.client import Client, Json

Refused = Callable[[Callable[[], Any]], str]

HELD: Json = {"schedulingGates": [{"name": "example.org/hold"}]}


def held(workspace: Workspace, name: str = "p") -> str:
    """A pod that waits behind another gate, too; its path."""
    pod = pod_object(name, annotations={"example.org/mine": "kept"}, **HELD)
    workspace.client.create(workspace.pods(), pod)
    return workspace.pods(name)


def binding(name: str, node: str, annotations: Json) -> Json:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ({"metadata": {"labels": {"a": "b"}}}, "may not change labels"),
        ({"metadata": {"annotations": {names.GPU_MEMORY: "1Gi"}}}, "may change cotenant.dev/earmark alone"),
        ({"spec": {"schedulingGates": None}}, "may remove cotenant.dev/packing alone"),
        ({"spec": {"activeDeadlineSeconds": 1}}, "may change nothing but the gate"),
        ({"metadata": {"finalizers": ["example.org/kept"]}}, "may not change labels, finalizers or owners"),
        ({"spec": {"nodeSelector": {"a": "b"}}}, "may change nothing but the gate"),
        *(
            ({"metadata": {"annotations": {key: "{}"}}}, "may change cotenant.dev/earmark alone")
            for key in (names.PLACEMENT, names.QUEUED_SINCE, names.PREDICTION, "example.org/a")
        ),
        (
            {"metadata": {"annotations": {names.GANG: '{"v":1,"name":"a","size":1}'}}},
            "may change cotenant.dev/earmark alone",
        ),
        ({"metadata": {"annotations": {"example.org/mine": None}}}, "may change cotenant.dev/earmark alone"),
        ({"metadata": {"annotations": {names.EARMARK: "x" * 8193}}}, "must be at most 8 KiB"),
        ({"metadata": {"labels": {names.ASKS_LABEL: None}}}, "may not change labels"),
    ],
)
def test_it_changes_only_gate_and_earmark(
    scheduler: Client, workspace: Workspace, refused: Refused, patch: Json, says: str
) -> None:
    path = held(workspace)
    assert says in refused(lambda: scheduler.patch(path, patch))


@pytest.mark.parametrize(
    ("op", "field", "value"),
    [
        ("replace", "/spec/containers/0/image", "other"),
        ("add", "/spec/tolerations/-", {"key": "a", "operator": "Exists"}),
        ("add", "/spec/affinity", {"nodeAffinity": {}}),
    ],
)
def test_it_changes_nothing_else_of_a_spec_with_the_gate(
    scheduler: Client, workspace: Workspace, refused: Refused, op: str, field: str, value: Any
) -> None:
    path = held(workspace)
    lift = {"op": "replace", "path": "/spec/schedulingGates", "value": HELD["schedulingGates"]}
    patch = [lift, {"op": op, "path": field, "value": value}]
    message = refused(lambda: scheduler.patch(path, patch, content_type="application/json-patch+json"))
    assert "may change nothing but the gate" in message


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ({"status": {"phase": "Succeeded"}}, "may write the conditions PodScheduled"),
        ({"metadata": {"annotations": {names.EARMARK: "{}"}}}, "changes none of them with a status"),
        ({"metadata": {"annotations": {names.PLACEMENT: "{}"}}}, "changes none of them with a status"),
        ({"metadata": {"labels": {"a": "b"}}}, "may not change labels"),
        ({"metadata": {"finalizers": ["example.org/kept"]}}, "may not change labels, finalizers or owners"),
        ({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}, "may write the conditions PodScheduled"),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "may write the conditions PodScheduled"),
    ],
)
def test_it_writes_conditions_alone_to_a_status(
    scheduler: Client, workspace: Workspace, refused: Refused, patch: Json, says: str
) -> None:
    path = held(workspace)
    assert says in refused(lambda: scheduler.patch(f"{path}/status", patch))


def test_what_the_extender_writes_is_accepted(scheduler: Client, workspace: Workspace) -> None:
    path = held(workspace)
    lift = {
        "metadata": {"annotations": {names.EARMARK: "{}"}},
        "spec": {"schedulingGates": [{"name": "example.org/hold"}]},
    }
    condition = {"type": names.PACKED, "status": "False", "reason": "Waiting", "message": "by a test"}
    scheduler.patch(f"{path}?dryRun=All", lift)
    scheduler.patch(f"{path}/status?dryRun=All", {"status": {"conditions": [condition]}})
    scheduler.delete(path, dryRun="All")


@pytest.mark.parametrize("what", ["pods", "binding", "eviction", "status", "delete"])
def test_it_writes_to_no_pod_of_kube_system(
    scheduler: Client, workspace: Workspace, refused: Refused, own_node: str, what: str
) -> None:
    name = f"{workspace.namespace}-system"
    path = clients.path_of("pods", namespace="kube-system", name=name)
    body = {"metadata": {"name": name}, "spec": {"containers": [CONTAINER], "schedulerName": "nobody"}}
    workspace.client.create(clients.path_of("pods", namespace="kube-system"), body)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "kube-system"}}
    ways: dict[str, Callable[[], Any]] = {
        "pods": lambda: scheduler.patch(path, {"metadata": {"annotations": {names.EARMARK: "{}"}}}),
        "status": lambda: scheduler.patch(f"{path}/status", {"status": {"nominatedNodeName": own_node}}),
        "binding": lambda: scheduler.create(f"{path}/binding", binding(name, own_node, {})),
        "eviction": lambda: scheduler.create(f"{path}/eviction", eviction),
        "delete": lambda: scheduler.delete(path),
    }
    assert "no pod of kube-system" in refused(ways[what])
    workspace.client.delete(path, gracePeriodSeconds="0")


def test_it_deletes_no_pod_of_another_scheduler(scheduler: Client, workspace: Workspace, refused: Refused) -> None:
    body = {"metadata": {"name": "theirs"}, "spec": {"containers": [CONTAINER], **HELD}}
    workspace.client.create(workspace.pods(), body)
    message = refused(lambda: scheduler.delete(workspace.pods("theirs")))
    assert "spec.schedulerName" in message
    assert "default-scheduler" in message


def test_a_forged_placement_is_refused_on_every_way_in(workspace: Workspace, refused: Refused, own_node: str) -> None:
    client, forged = workspace.client, {names.PLACEMENT: "{}"}
    path = held(workspace)
    bindings = clients.path_of("bindings", namespace=workspace.namespace)
    ways: dict[str, Callable[[], Any]] = {
        "create": lambda: client.create(workspace.pods(), pod_object("q", annotations=forged)),
        "update": lambda: client.patch(path, {"metadata": {"annotations": forged}}),
        "status": lambda: client.patch(f"{path}/status", {"metadata": {"annotations": forged}}),
        "pods/binding": lambda: client.create(f"{path}/binding", binding("p", own_node, forged)),
        "bindings": lambda: client.create(bindings, binding("p", own_node, forged)),
    }
    for way, attempt in ways.items():
        assert "only the extender writes a placement" in refused(attempt), way


def test_a_binding_carries_no_other_annotation_of_ours(workspace: Workspace, refused: Refused, own_node: str) -> None:
    path = held(workspace)
    body = binding("p", own_node, {names.GPU_MEMORY: "1Gi"})
    assert "a Binding carries no annotation" in refused(lambda: workspace.client.create(f"{path}/binding", body))


@pytest.mark.parametrize("value", ["{}", '{"forged":true}', None])
def test_nobody_changes_or_removes_a_placement(
    scheduler: Client, workspace: Workspace, refused: Refused, own_node: str, value: str | None
) -> None:
    workspace.client.create(workspace.pods(), pod_object("p"))
    scheduler.patch(workspace.pods("p"), {"spec": {"schedulingGates": None}})
    placed = binding("p", own_node, {names.PLACEMENT: '{"v":1}'})
    scheduler.create(f"{workspace.pods('p')}/binding", placed)
    patch = {"metadata": {"annotations": {names.PLACEMENT: value}}}
    for client in (workspace.client, scheduler):
        refused(lambda client=client: client.patch(workspace.pods("p"), patch))  # type: ignore[misc]


def test_an_earmark_is_refused_to_others(workspace: Workspace, refused: Refused) -> None:
    path = held(workspace)
    patch = {"metadata": {"annotations": {names.EARMARK: "{}"}}}
    for way in (path, f"{path}/status"):
        message = refused(lambda way=way: workspace.client.patch(way, patch))  # type: ignore[misc]
        assert "only the extender writes an earmark" in message
