"""What the scheduler's token is good for besides pods: kube-scheduler's own roles let it write more than it needs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.rights import may
from cluster.workloads import CONTAINER, Workspace
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e.client import Client, Json
from cotenant_e2e.cluster import Cluster
from security.test_scheduler_token import binding, held

Refused = Callable[[Callable[[], Any]], str]

COORDINATION, RESOURCES = "coordination.k8s.io", "resource.k8s.io"
BOUND, SELECTED = "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node"


# --- pods


@pytest.mark.parametrize(
    "status",
    [
        {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]},
        {"hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}]},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"reason": "Evicted", "message": "x"},
        {"startTime": "2001-01-01T00:00:00Z"},
        {"ephemeralContainerStatuses": [{"name": "x", "ready": True, "restartCount": 0, "image": "a", "imageID": "b"}]},
        {"observedGeneration": 77},
    ],
    ids=lambda status: next(iter(status)),
)
def test_it_gives_no_pod_an_address_or_a_state(
    scheduler: Client, workspace: Workspace, refused: Refused, own_node: str, status: Json
) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER], "nodeName": own_node}}
    workspace.client.create(workspace.pods(), pod)
    message = refused(lambda: scheduler.patch(f"{workspace.pods('p')}/status", {"status": status}))
    assert "status: the scheduler's account may write the conditions PodScheduled, " in message


def test_every_field_of_a_status_is_compared_but_its_own(cluster: Cluster) -> None:
    schema = cluster.client.get("/openapi/v3/api/v1")["components"]["schemas"]["io.k8s.api.core.v1.PodStatus"]
    own = {"conditions", "nominatedNodeName", "extendedResourceClaimStatus"}
    rule, _ = expressions(cluster, "cotenant-pods", "matchConditions")
    assert unjudged(rule, schema) == own


def test_what_kube_scheduler_writes_to_a_pod_is_accepted(
    scheduler: Client, workspace: Workspace, own_node: str
) -> None:
    path = held(workspace)
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "by a test"}
    ends = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "by a test"}
    scheduler.patch(f"{path}/status", {"status": {"conditions": [waits, ends], "nominatedNodeName": own_node}})


@pytest.mark.parametrize("field", ["annotations", "labels"])
@pytest.mark.parametrize("way", ["pods/binding", "bindings"])
def test_its_bindings_carry_a_placement_alone(
    scheduler: Client, workspace: Workspace, refused: Refused, own_node: str, way: str, field: str
) -> None:
    body = {"metadata": {"name": "theirs"}, "spec": {"containers": [CONTAINER], "schedulerName": "nobody"}}
    workspace.client.create(workspace.pods(), body)
    forged = binding("theirs", own_node, {})
    forged["metadata"][field] = {"sidecar.istio.io/inject": "false"}
    path = f"{workspace.pods('theirs')}/binding"
    if way == "bindings":
        path = clients.path_of("bindings", namespace=workspace.namespace)
    message = refused(lambda: scheduler.create(path, forged))
    assert "metadata: sidecar.istio.io/inject: a Binding of the scheduler's account carries no" in message


# --- Leases


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("kube-system", "kube-scheduler"),
        ("kube-system", "kube-controller-manager"),
        ("kube-node-lease", "any"),
        (names.RELEASE_NAMESPACE, "node-{other}"),
        (names.RELEASE_NAMESPACE, "any"),
    ],
)
def test_it_writes_no_lease_but_its_own(
    scheduler: Client, refused: Refused, other_node: str, namespace: str, name: str
) -> None:
    path, name = clients.path_of("leases", group=COORDINATION, namespace=namespace), name.format(other=other_node)
    body = {"metadata": {"name": name}, "spec": {"holderIdentity": "forged"}}
    message = refused(lambda: scheduler.create(f"{path}?dryRun=All", body))
    assert f"may not write leases {namespace}/{name}" in message


def test_it_takes_over_no_lease_of_kubernetes(scheduler: Client, cluster: Cluster, refused: Refused) -> None:
    path = clients.path_of("leases", group=COORDINATION, namespace="kube-system")
    if cluster.client.find(f"{path}/kube-scheduler") is None:
        cluster.client.create(path, {"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": "theirs"}})
    lease = scheduler.get(f"{path}/kube-scheduler")
    lease["spec"]["holderIdentity"] = "thief"
    message = refused(lambda: scheduler.replace(f"{path}/kube-scheduler", lease))
    assert "may not write leases kube-system/kube-scheduler" in message


def test_it_keeps_its_own_lease(scheduler: Client, cluster: Cluster) -> None:
    path = clients.path_of("leases", group=COORDINATION, namespace=names.RELEASE_NAMESPACE)
    lease = {"metadata": {"name": names.SCHEDULER_LEASE}, "spec": {"holderIdentity": "one"}}
    scheduler.create(path, lease)
    found = scheduler.get(f"{path}/{names.SCHEDULER_LEASE}")
    found["spec"]["holderIdentity"] = "two"
    scheduler.replace(f"{path}/{names.SCHEDULER_LEASE}", found)
    cluster.client.delete(f"{path}/{names.SCHEDULER_LEASE}")


# --- volumes


@pytest.fixture
def volume(workspace: Workspace) -> Iterator[str]:
    """A volume that no claim has; its path."""
    path, name = clients.path_of("persistentvolumes"), f"{workspace.namespace}-volume"
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "by-hand",
        "nfs": {"server": "192.0.2.1", "path": "/data"},
    }
    workspace.client.create(path, {"metadata": {"name": name}, "spec": spec})
    yield f"{path}/{name}"
    workspace.client.delete(f"{path}/{name}")


@pytest.fixture
def claim(workspace: Workspace) -> str:
    """A claim that waits; its path."""
    path = clients.path_of("persistentvolumeclaims", namespace=workspace.namespace)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "by-hand",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    workspace.client.create(path, {"metadata": {"name": "data"}, "spec": spec})
    return f"{path}/data"


def reference(workspace: Workspace, name: str, **more: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": workspace.namespace,
        "name": name,
    } | more


def bound(found: Json, claim: Json) -> Json:
    """As kube-scheduler writes it; the controller of volumes writes beside it."""
    annotations = {**found["metadata"].get("annotations", {}), BOUND: "yes"}
    found["metadata"].pop("resourceVersion")
    return {
        **found,
        "metadata": {**found["metadata"], "annotations": annotations},
        "spec": {**found["spec"], "claimRef": claim},
    }


def test_it_gives_a_free_volume_a_claim_as_kube_scheduler_does(
    scheduler: Client, workspace: Workspace, volume: str
) -> None:
    scheduler.replace(f"{volume}?dryRun=All", bound(scheduler.get(volume), reference(workspace, "data", uid="u")))
    workspace.client.patch(volume, {"spec": {"claimRef": reference(workspace, "named")}})
    scheduler.replace(f"{volume}?dryRun=All", bound(scheduler.get(volume), reference(workspace, "named", uid="u")))


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"claimRef": {"name": "mine", "uid": None}}},
        {"spec": {"claimRef": {"namespace": "default", "uid": None}}},
        {"spec": {"claimRef": {"uid": "another"}}},
        {"spec": {"claimRef": None}},
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        {"spec": {"mountOptions": ["suid"]}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.org/kept"]}},
    ],
    ids=str,
)
def test_it_changes_nothing_else_of_a_volume(
    scheduler: Client, workspace: Workspace, refused: Refused, volume: str, patch: Json
) -> None:
    claim = {"spec": {"claimRef": reference(workspace, "theirs", uid="u")}}
    workspace.client.patch(volume, claim)
    message = refused(lambda: scheduler.patch(f"{volume}?dryRun=All", patch))
    assert "the scheduler's account" in message
    assert f"{next(iter(patch))}: " in message


def test_every_field_of_a_volume_is_compared(cluster: Cluster) -> None:
    schema = cluster.client.get("/openapi/v3/api/v1")["components"]["schemas"][
        "io.k8s.api.core.v1.PersistentVolumeSpec"
    ]
    rules = " ".join(expressions(cluster, "cotenant-scheduler-objects", "validations"))
    assert unjudged(rules, schema) == {"claimRef"}


def expressions(cluster: Cluster, policy: str, part: str) -> list[str]:
    """Return the expressions of the validations or the match conditions of a policy."""
    path = clients.path_of("validatingadmissionpolicies", group="admissionregistration.k8s.io", name=policy)
    return [one["expression"] for one in cluster.client.get(path)["spec"][part]]


def unjudged(rules: str, schema: Json) -> set[str]:
    """Return the fields that no list in the rules names."""
    return {field for field in schema["properties"] if f"'{field}'" not in rules}


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.org/kept"]}},
        {"spec": {"volumeName": "theirs"}},
    ],
    ids=str,
)
def test_it_changes_nothing_of_a_claim_but_its_node(
    scheduler: Client, refused: Refused, own_node: str, claim: str, patch: Json
) -> None:
    scheduler.patch(f"{claim}?dryRun=All", {"metadata": {"annotations": {SELECTED: own_node}}})
    message = refused(lambda: scheduler.patch(f"{claim}?dryRun=All", patch))
    assert f"{next(iter(patch))}: the scheduler's account changes no" in message


# --- resource claims


def test_it_makes_and_deletes_no_resource_claim_of_others(
    scheduler: Client, workspace: Workspace, refused: Refused
) -> None:
    path = clients.path_of("resourceclaims", group=RESOURCES, namespace=workspace.namespace)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    extended = {"resource.kubernetes.io/extended-resource-claim": "true"}
    body = {"metadata": {"name": "mine"}, "spec": {}}
    assert "metadata.annotations: the" in refused(lambda: scheduler.create(f"{path}?dryRun=All", body))
    ours = {"name": "p-extended", "annotations": extended, "ownerReferences": [owner]}
    scheduler.create(f"{path}?dryRun=All", {"metadata": ours, "spec": {}})
    workspace.client.create(path, body)
    assert "metadata.annotations: the" in refused(lambda: scheduler.delete(f"{path}/mine"))
    protected = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    scheduler.patch(f"{path}/mine?dryRun=All", protected)
    message = refused(lambda: scheduler.patch(f"{path}/mine", {"metadata": {"labels": {"a": "b"}}}))
    assert "changes no labels" in message


# --- events


def of_kind(group: str, namespace: str, reporter: str, kind: str = "Pod") -> Json:
    """An event, as core v1 or events.k8s.io has it."""
    about = {"kind": kind, "namespace": namespace, "name": "p"}
    event: Json = {"metadata": {"name": "e"}, "reason": "Failed", "type": "Warning"}
    if not group:
        return event | {"involvedObject": about, "reportingComponent": reporter, "message": "x"}
    when = "2026-01-01T00:00:00.000000Z"
    more = {"reportingController": reporter, "reportingInstance": "i", "action": "a", "eventTime": when}
    return event | more | {"regarding": about}


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
def test_its_events_are_about_pods_and_its_own(
    scheduler: Client, workspace: Workspace, refused: Refused, group: str
) -> None:
    space = workspace.namespace

    def tell(namespace: str, event: Json) -> Any:
        path = clients.path_of("events", group=group, namespace=namespace)
        return scheduler.create(f"{path}?dryRun=All", event)

    for reporter in ("cotenant", "cotenant-extender"):
        tell(space, of_kind(group, space, reporter))
    tell(names.RELEASE_NAMESPACE, of_kind(group, names.RELEASE_NAMESPACE, "cotenant", "Lease"))
    for namespace, forged in (
        (space, of_kind(group, space, "kubelet")),
        # Of the newer kind the API server itself refuses a second source.
        *([] if group else [(space, of_kind(group, space, "cotenant") | {"source": {"component": "kubelet"}})]),
        (space, of_kind(group, space, "cotenant", "DLJob")),
        ("kube-system", of_kind(group, "kube-system", "cotenant")),
    ):
        message = refused(lambda namespace=namespace, forged=forged: tell(namespace, forged))  # type: ignore[misc]
        assert "the scheduler's account tells about pods outside kube-system" in message


def test_what_of_its_roles_no_rule_narrows_it_may_not_reach(cluster: Cluster) -> None:
    account = names.SCHEDULER_ACCOUNT
    for verb, resource in (("create", "persistentvolumes"), ("delete", "persistentvolumeclaims"), ("get", "secrets")):
        assert not may(cluster, account, verb, resource)
    assert not may(cluster, account, "delete", f"leases.{COORDINATION}", namespace="kube-system")
