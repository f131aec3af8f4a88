"""What a node agent's token is good for once it is somebody else's: what belongs to its node, and nobody's eviction."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from cluster.workloads import Workspace
from cotenant_api import names
from cotenant_api.gpunode import LEASE_SECONDS
from cotenant_api.names import Namespace, NodeName, PodUID
from cotenant_deviceplugin.kube import manifests
from cotenant_e2e import client as clients
from cotenant_e2e.client import Client, Json
from cotenant_e2e.cluster import Cluster

Refused = Callable[[Callable[[], Any]], str]

HELD: Json = {"schedulingGates": [{"name": "example.org/hold"}]}
EXTRA: Json = {
    "finalizers": {"finalizers": ["example.org/kept"]},
    "labels": {"labels": {"a": "b"}},
    "annotations": {"annotations": {"a": "b"}},
}
"""What an agent's objects have none of."""
TENANT: Json = {"podUID": "u", "namespace": "n", "pod": "p"}
ENDED: Json = {"podUID": "u", "time": "2026-01-01T00:00:00Z"}


def gpunode(name: str) -> str:
    return clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION, name=name)


def lease(name: str) -> str:
    return clients.path_of("leases", group="coordination.k8s.io", namespace=names.RELEASE_NAMESPACE, name=name)


def made_gpunode(name: str) -> Json:
    return {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": name}}


def test_it_makes_no_gpunode_of_another_node(agent: Client, refused: Refused, own_node: str, other_node: str) -> None:
    path = f"{clients.path_of('gpunodes', group=names.GROUP, version=names.VERSION)}?dryRun=All"
    agent.create(path, made_gpunode(own_node))
    message = refused(lambda: agent.create(path, made_gpunode(other_node)))
    assert f"the agent of node {own_node} may not write gpunodes/{other_node}" in message


def test_it_writes_no_status_of_another_node(
    agent: Client, cluster: Cluster, refused: Refused, own_node: str, other_node: str
) -> None:
    for name in (own_node, other_node):
        cluster.client.create(gpunode(name).rpartition("/")[0], made_gpunode(name))
    status = {"status": {"agentVersion": "forged"}}
    message = refused(lambda: agent.patch(f"{gpunode(other_node)}/status", status))
    assert f"may not write gpunodes/{other_node}" in message
    agent.patch(f"{gpunode(own_node)}/status", status)
    for name in (own_node, other_node):
        cluster.client.delete(gpunode(name))


@pytest.mark.parametrize("name", ["node-{other}", names.SCHEDULER_LEASE, "any"])
def test_it_writes_no_lease_but_that_of_its_node(
    agent: Client, refused: Refused, own_node: str, other_node: str, name: str
) -> None:
    path, wanted = lease("").rstrip("/"), name.format(other=other_node)
    body = {"metadata": {"name": wanted}, "spec": {"holderIdentity": "forged"}}
    assert f"may not write leases/{wanted}" in refused(lambda: agent.create(f"{path}?dryRun=All", body))
    agent.create(f"{path}?dryRun=All", {"metadata": {"name": f"node-{own_node}"}, "spec": {"holderIdentity": "o"}})


def test_it_reads_the_lease_of_its_node_and_no_other(
    agent: Client, workspace: Workspace, refused: Refused, own_node: str, other_node: str
) -> None:
    """RBAC gives an agent every Lease or none to get, so that it has none; an empty patch answers with the Lease."""
    for node in (own_node, other_node):
        made = {"metadata": {"name": f"node-{node}"}, "spec": {"holderIdentity": node}}
        workspace.client.create(lease("").rstrip("/"), made)
    try:
        assert agent.patch(lease(f"node-{own_node}"), {}) == workspace.client.get(lease(f"node-{own_node}"))
        assert "may not write leases" in refused(lambda: agent.patch(lease(f"node-{other_node}"), {}))
        assert "cannot get resource" in refused(lambda: agent.get(lease(f"node-{own_node}")))
    finally:
        for node in (own_node, other_node):
            workspace.client.delete(lease(f"node-{node}"))


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, "metadata.labels"),
        ({"metadata": {"annotations": {"forged": "yes"}}}, "metadata.annotations"),
        ({"metadata": {"finalizers": ["example.org/kept"]}}, "metadata.finalizers"),
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
            "metadata.ownerReferences",
        ),
        ({"spec": {"providerID": "aws:///i-0"}}, "spec"),
        ({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}, "spec"),
        ({"spec": {"unschedulable": True}}, "spec"),
        ({"spec": {"taints": [{"key": "forged", "effect": "NoExecute"}]}}, "spec"),
    ],
    ids=lambda found: found if isinstance(found, str) else None,
)
def test_it_changes_nothing_of_its_node(
    agent: Client, refused: Refused, own_node: str, patch: Json, field: str
) -> None:
    message = refused(lambda: agent.patch(f"{clients.path_of('nodes', name=own_node)}?dryRun=All", patch))
    assert f"{field}: an agent may remove the taint cotenant.dev/agent-not-ready" in message


def test_every_field_of_a_nodes_spec_is_compared(cluster: Cluster) -> None:
    schema = cluster.client.get("/openapi/v3/api/v1")["components"]["schemas"]["io.k8s.api.core.v1.NodeSpec"]
    path = clients.path_of(
        "validatingadmissionpolicies", group="admissionregistration.k8s.io", name="cotenant-node-agent-writes"
    )
    rules = " ".join(rule["expression"] for rule in cluster.client.get(path)["spec"]["validations"])
    unjudged = {name for name in schema["properties"] if f"'{name}'" not in rules and f".?{name}." not in rules}
    assert not unjudged


@pytest.mark.parametrize("seconds", [2**31 - 1, 121])
def test_its_lease_lasts_no_longer_than_an_agent_may_be_silent(
    agent: Client, refused: Refused, own_node: str, seconds: int
) -> None:
    path = f"{lease('').rstrip('/')}?dryRun=All"
    body = {"metadata": {"name": f"node-{own_node}"}, "spec": {"holderIdentity": "o", "leaseDurationSeconds": seconds}}
    message = refused(lambda: agent.create(path, body))
    assert f"spec.leaseDurationSeconds: {seconds}: an agent is silent after 1 to 120 s" in message
    body["spec"] = {"holderIdentity": "o", "leaseDurationSeconds": LEASE_SECONDS}
    agent.create(path, body)


IMPOSSIBLE: dict[str, tuple[Json, str]] = {
    "memory": ({"memoryMiB": 2**40}, "memoryMiB"),
    "used memory": ({"memoryUsedMiB": 2**40}, "memoryUsedMiB"),
    "place": ({"index": 2**31}, "index"),
    "multiprocessors": ({"smCount": 2**31}, "smCount"),
    "processes": ({"foreignProcesses": 2**31}, "foreignProcesses"),
    "an XID": ({"lastFault": {"id": "f", "time": "2026-01-01T00:00:00Z", "xid": 2**40}}, "lastFault.xid"),
    "a tenant's memory": ({"tenants": [TENANT | {"memoryPeakMiB": 2**40}]}, "tenants[0].memoryPeakMiB"),
    "a tenant's time": ({"tenants": [TENANT | {"aloneSeconds": 2**40}]}, "tenants[0].aloneSeconds"),
    "an ended one's memory": ({"ended": [ENDED | {"memoryPeakMiB": 2**40}]}, "ended[0].memoryPeakMiB"),
}


@pytest.mark.parametrize(("told", "field"), IMPOSSIBLE.values(), ids=list(IMPOSSIBLE))
def test_it_tells_no_number_that_no_node_has(
    cluster: Cluster, agent: Client, refused: Refused, own_node: str, told: Json, field: str
) -> None:
    gpu = {"uuid": "GPU-0", "index": 0, "model": "m", "memoryMiB": 1, "health": "Healthy"}
    cluster.client.create(gpunode(own_node).rpartition("/")[0], made_gpunode(own_node))
    try:
        path = f"{gpunode(own_node)}/status"
        agent.patch(path, {"status": {"gpus": [gpu]}})
        message = refused(lambda: agent.patch(path, {"status": {"gpus": [gpu | told]}}))
        assert f"status.gpus[0].{field}" in message
    finally:
        cluster.client.delete(gpunode(own_node))


@pytest.mark.parametrize("field", ["renewTime", "acquireTime"])
def test_it_writes_no_time_into_its_lease_that_keeps_its_agent_from_renewing_it(
    agent: Client, workspace: Workspace, refused: Refused, own_node: str, field: str
) -> None:
    """Stored beyond the year 9999, it made every later write of the Lease invalid."""
    # With another node's UID the garbage collector would take it away.
    uid = workspace.client.get(clients.path_of("nodes", name=own_node))["metadata"]["uid"]
    made = manifests.lease(NodeName(own_node), Namespace(names.RELEASE_NAMESPACE), node_uid=uid, now=datetime.now(UTC))
    path, far = lease(f"node-{own_node}"), {"spec": {field: "9999-12-31T23:59:59.999999-23:59"}}
    workspace.client.create(lease("").rstrip("/"), dict(made))
    try:
        assert "not in the years 2000 to 2199" in refused(lambda: agent.patch(path, far))
    finally:
        workspace.client.delete(path)


def test_it_changes_nothing_of_another_node(agent: Client, refused: Refused, other_node: str) -> None:
    path = clients.path_of("nodes", name=other_node)
    assert f"may not write nodes/{other_node}" in refused(
        lambda: agent.patch(path, {"metadata": {"labels": {"a": "b"}}})
    )


def test_it_removes_the_startup_taint_of_its_node_and_no_other(
    agent: Client, cluster: Cluster, refused: Refused, own_node: str
) -> None:
    node, key = clients.path_of("nodes", name=own_node), "example.org/other"
    taints = [{"key": taint, "effect": "PreferNoSchedule"} for taint in (*names.STARTUP_TAINTS, key)]
    cluster.client.patch(node, {"spec": {"taints": taints}})
    assert "may remove the taint" in refused(lambda: agent.patch(node, {"spec": {"taints": taints[:1]}}))
    agent.patch(node, {"spec": {"taints": taints[-1:]}})
    cluster.client.patch(node, {"spec": {"taints": None}})


@pytest.mark.parametrize("where", ["own node", "other node", "kube-system", "waiting"])
def test_it_evicts_nobody(
    agent: Client, workspace: Workspace, refused: Refused, own_node: str, other_node: str, where: str
) -> None:
    namespace = "kube-system" if where == "kube-system" else workspace.namespace
    spec: Json = {"containers": [{"name": "main", "image": "x"}]}
    if where == "waiting":
        spec |= HELD
    else:
        spec |= {"nodeName": other_node if where == "other node" else own_node}
    path, name = clients.path_of("pods", namespace=namespace), f"{workspace.namespace}-evicted"
    workspace.client.create(path, {"metadata": {"name": name}, "spec": spec})
    uid = workspace.client.get(f"{path}/{name}")["metadata"]["uid"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    assert "cannot create resource" in refused(lambda: agent.create(f"{path}/{name}/eviction", body))
    assert "cannot delete resource" in refused(lambda: agent.delete(f"{path}/{name}"))
    workspace.client.delete(f"{path}/{name}", gracePeriodSeconds="0")


@pytest.mark.parametrize(
    "forged",
    [
        {"reportingComponent": "kubelet"},
        {"source": {"component": "cotenant-node-agent", "host": "another"}},
        {"source": {"component": "cotenant-node-agent"}},
        {"source": {"component": "kubelet", "host": "h200-0"}},
        {"involvedObject": {"kind": "DLJob", "name": "train"}},
    ],
    ids=["as kubelet", "of another node", "of no node", "from kubelet", "about a DLJob"],
)
def test_its_events_are_about_pods_as_itself_and_of_its_node(
    agent: Client, workspace: Workspace, refused: Refused, own_node: str, forged: Json
) -> None:
    subject = manifests.Subject(PodUID("u"), Namespace(workspace.namespace), "p")
    now = datetime.now(UTC)
    event = dict(manifests.event(subject, node=NodeName(own_node), reason="GPURefused", message="m", now=now))
    path = f"{clients.path_of('events', namespace=workspace.namespace)}?dryRun=All"
    agent.create(path, event)
    if "involvedObject" in forged:
        forged = {"involvedObject": {**forged["involvedObject"], "namespace": workspace.namespace}}
    message = refused(lambda: agent.create(path, {**event, **forged}))
    assert f"as cotenant-node-agent and of node {own_node}" in message


def test_it_tells_nothing_about_pods_of_kube_system(agent: Client, refused: Refused, own_node: str) -> None:
    subject, now = manifests.Subject(PodUID("u"), Namespace("kube-system"), "p"), datetime.now(UTC)
    event = dict(manifests.event(subject, node=NodeName(own_node), reason="GPURefused", message="m", now=now))
    path = f"{clients.path_of('events', namespace='kube-system')}?dryRun=All"
    assert "about pods outside kube-system" in refused(lambda: agent.create(path, event))


@pytest.mark.parametrize(
    "metadata",
    [
        *EXTRA.values(),
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "another", "uid": "u"}]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "u"}]},
    ],
    ids=[*EXTRA, "another node's", "a namespace's"],
)
@pytest.mark.parametrize("kind", ["gpunodes", "leases"])
def test_what_it_makes_goes_with_its_node(
    agent: Client, refused: Refused, own_node: str, kind: str, metadata: Json
) -> None:
    path, found = gpunode("").rstrip("/"), manifests.gpu_node(NodeName(own_node), node_uid="u")
    if kind == "leases":
        path, now = lease("").rstrip("/"), datetime.now(UTC)
        namespace = Namespace(names.RELEASE_NAMESPACE)
        found = manifests.lease(NodeName(own_node), namespace, node_uid="u", now=now)
    body = dict(found)
    agent.create(f"{path}?dryRun=All", body)
    body["metadata"] = {**body["metadata"], **metadata}
    message = refused(lambda: agent.create(f"{path}?dryRun=All", body))
    assert f"no owner but Node {own_node}" in message


@pytest.mark.parametrize(
    "metadata",
    [
        *EXTRA.values(),
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": "u"}]},
    ],
    ids=[*EXTRA, "a namespace's"],
)
def test_what_it_made_goes_with_its_node_whatever_it_changes_later(
    agent: Client, workspace: Workspace, refused: Refused, own_node: str, metadata: Json
) -> None:
    path = lease(f"node-{own_node}")
    # Without its owner: the garbage collector finds no such Node.
    made = {"metadata": {"name": f"node-{own_node}"}, "spec": {"holderIdentity": own_node}}
    workspace.client.create(lease("").rstrip("/"), made)
    try:
        agent.patch(f"{path}?dryRun=All", {"spec": {"leaseDurationSeconds": 41}})
        message = refused(lambda: agent.patch(f"{path}?dryRun=All", {"metadata": metadata}))
        assert f"no owner but Node {own_node}" in message
    finally:
        workspace.client.delete(path)


def test_a_token_without_a_node_writes_nothing(cluster: Cluster, refused: Refused, own_node: str) -> None:
    unbound = cluster.client_for_token(cluster.token(names.RELEASE_NAMESPACE, names.NODE_AGENT_ACCOUNT))
    node = clients.path_of("nodes", name=own_node)
    message = refused(lambda: unbound.patch(node, {"metadata": {"labels": {"a": "b"}}}))
    assert "must be bound to a Node" in message


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/configmaps"),
        ("POST", "/api/v1/namespaces/kube-system/pods"),
        ("PATCH", "/apis/cotenant.dev/v1alpha1/packingpolicies/default"),
        ("PATCH", "/apis/cotenant.dev/v1alpha1/packingpolicies/default/status"),
    ],
)
def test_it_reads_no_secrets_and_writes_nothing_else(agent: Client, refused: Refused, method: str, path: str) -> None:
    assert "cannot" in refused(lambda: agent.request(method, path, None if method == "GET" else {}))
