"""What the token of helm's hook is good for while a release is taken away: our labels and taints, of any node."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.rights import may
from cotenant_api import names
from cotenant_e2e import charts, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.client import Client, Json
from cotenant_e2e.cluster import Cluster

Refused = Callable[[Callable[[], Any]], str]
ACCOUNT, RBAC, SECONDS = "cotenant-uninstall", "rbac.authorization.k8s.io", 30
THEIRS: Json = {"key": "example.org/other", "effect": "PreferNoSchedule"}


@pytest.fixture(scope="module")
def hook(installed: Any) -> Iterator[Client]:
    """Whoever has the token that helm's hook has for a while."""
    cluster: Cluster = installed.cluster
    (role,) = (one for one in charts.access() if (one["kind"], one["metadata"]["name"]) == ("ClusterRole", ACCOUNT))
    accounts = clients.path_of("serviceaccounts", namespace=names.RELEASE_NAMESPACE)
    roles, bindings = (clients.path_of(plural, group=RBAC) for plural in ("clusterroles", "clusterrolebindings"))
    cluster.client.create(accounts, {"metadata": {"name": ACCOUNT}})
    cluster.client.create(roles, {"metadata": {"name": ACCOUNT}, "rules": role["rules"]})
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": names.RELEASE_NAMESPACE}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": ACCOUNT}
    cluster.client.create(bindings, {"metadata": {"name": ACCOUNT}, "roleRef": reference, "subjects": [subject]})
    waiting.wait_until(lambda: may(cluster, ACCOUNT, "patch", "nodes"), "the hook's rights", SECONDS)
    yield cluster.client_for_token(cluster.token(names.RELEASE_NAMESPACE, ACCOUNT))
    for path in (bindings, roles, accounts):
        cluster.client.delete(f"{path}/{ACCOUNT}")


@pytest.fixture
def node(cluster: Cluster, own_node: str) -> Iterator[str]:
    """The path of a node with a label, a taint and an annotation of somebody else, and both of our taints."""
    path = clients.path_of("nodes", name=own_node)
    taints = [*({"key": key, "effect": "PreferNoSchedule"} for key in names.STARTUP_TAINTS), THEIRS]
    metadata = {"labels": {"example.org/pool": "a"}, "annotations": {"example.org/note": "a"}}
    cluster.client.patch(path, {"metadata": metadata, "spec": {"taints": taints}})
    yield path
    gone = {"labels": {"example.org/pool": None}, "annotations": {"example.org/note": None}}
    cluster.client.patch(path, {"metadata": gone, "spec": {"taints": None}})


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, "metadata.labels"),
        ({"metadata": {"labels": {names.GPU_NODE_LABEL: "maybe"}}}, "metadata.labels"),
        ({"metadata": {"labels": {f"{names.GROUP}/forged": "yes"}}}, "metadata.labels"),
        ({"metadata": {"labels": {"example.org/pool": None}}}, "metadata.labels"),
        ({"metadata": {"annotations": {"forged": "yes"}}}, "metadata.annotations"),
        ({"metadata": {"annotations": {"example.org/note": None}}}, "metadata.annotations"),
        ({"metadata": {"finalizers": ["example.org/kept"]}}, "metadata.finalizers"),
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
            "metadata.ownerReferences",
        ),
        ({"spec": {"providerID": "aws:///i-0"}}, "spec"),
        ({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}, "spec"),
        ({"spec": {"unschedulable": True}}, "spec"),
        ({"spec": {"taints": [{"key": "forged", "effect": "NoExecute"}]}}, "spec"),
        ({"spec": {"taints": None}}, "spec"),
    ],
    ids=lambda found: found if isinstance(found, str) else None,
)
def test_it_changes_nothing_else_of_a_node(hook: Client, refused: Refused, node: str, patch: Json, field: str) -> None:
    assert f"{field}: the end of a release takes" in refused(lambda: hook.patch(f"{node}?dryRun=All", patch))


def test_it_takes_our_labels_and_taints_off_a_node(hook: Client, node: str) -> None:
    labels = {names.GPU_NODE_LABEL: None}
    changed = hook.patch(f"{node}?dryRun=All", {"metadata": {"labels": labels}, "spec": {"taints": [THEIRS]}})
    assert names.GPU_NODE_LABEL not in changed["metadata"]["labels"]
    assert changed["metadata"]["labels"]["example.org/pool"] == "a"
    assert [taint["key"] for taint in changed["spec"]["taints"]] == [THEIRS["key"]]


def test_it_writes_no_status_of_a_node_and_reads_no_secrets(hook: Client, refused: Refused, node: str) -> None:
    assert "cannot patch" in refused(lambda: hook.patch(f"{node}/status", {"status": {}}))
    assert "cannot list" in refused(lambda: hook.get("/api/v1/secrets"))


def test_every_field_of_a_nodes_spec_is_compared(cluster: Cluster) -> None:
    schema = cluster.client.get("/openapi/v3/api/v1")["components"]["schemas"]["io.k8s.api.core.v1.NodeSpec"]
    path = clients.path_of(
        "validatingadmissionpolicies", group="admissionregistration.k8s.io", name="cotenant-uninstall-writes"
    )
    rules = " ".join(rule["expression"] for rule in cluster.client.get(path)["spec"]["validations"])
    assert not {name for name in schema["properties"] if f"'{name}'" not in rules and f".?{name}." not in rules}
