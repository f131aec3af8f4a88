"""What each account may do, asked of the API server; the rest is refused."""

import pytest

from cluster.rights import may
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.cluster import Cluster

SECONDS = 30
SCHEDULER, OPERATOR, AGENT = names.SCHEDULER_ACCOUNT, names.OPERATOR_ACCOUNT, names.NODE_AGENT_ACCOUNT
RELEASE = names.RELEASE_NAMESPACE


@pytest.mark.parametrize(
    ("account", "verb", "resource"),
    [
        (SCHEDULER, "create", "pods/binding"),
        (SCHEDULER, "patch", "pods"),
        (SCHEDULER, "patch", "pods/status"),
        (SCHEDULER, "watch", "gpunodes.cotenant.dev"),
        (SCHEDULER, "create", "pods/eviction"),
        (SCHEDULER, "watch", "persistentvolumeclaims"),
        (SCHEDULER, "watch", "persistentvolumes"),
        (SCHEDULER, "watch", "storageclasses.storage.k8s.io"),
        (OPERATOR, "create", "jobs.batch"),
        (OPERATOR, "patch", "dljobs.cotenant.dev/status"),
        (OPERATOR, "patch", "packingpolicies.cotenant.dev/status"),
        (OPERATOR, "get", "configmaps"),
        (OPERATOR, "create", "configmaps"),
        (OPERATOR, "patch", "configmaps"),
        (OPERATOR, "delete", "configmaps"),
        (OPERATOR, "create", "serviceaccounts"),
        (OPERATOR, "create", "services"),
        (OPERATOR, "patch", "services"),
        (OPERATOR, "delete", "services"),
        (OPERATOR, "create", "roles.rbac.authorization.k8s.io"),
        (OPERATOR, "create", "rolebindings.rbac.authorization.k8s.io"),
        (AGENT, "patch", "gpunodes.cotenant.dev/status"),
        (AGENT, "watch", "pods"),
        (AGENT, "watch", "nodes"),
        (AGENT, "watch", "packingpolicies.cotenant.dev"),
        (AGENT, "watch", "resourceslices.resource.k8s.io"),
        (AGENT, "create", "events"),
    ],
)
def test_an_account_may_do_its_work(cluster: Cluster, account: str, verb: str, resource: str) -> None:
    assert may(cluster, account, verb, resource)


@pytest.mark.parametrize("account", [SCHEDULER, OPERATOR, AGENT])
@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("get", "secrets"),
        ("list", "secrets"),
        ("create", "pods/exec"),
        ("create", "serviceaccounts/token"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("bind", "clusterroles.rbac.authorization.k8s.io"),
        ("escalate", "clusterroles.rbac.authorization.k8s.io"),
        ("bind", "roles.rbac.authorization.k8s.io"),
        ("escalate", "roles.rbac.authorization.k8s.io"),
        ("impersonate", "users"),
        ("patch", "validatingadmissionpolicies.admissionregistration.k8s.io"),
        ("patch", "customresourcedefinitions.apiextensions.k8s.io"),
        ("patch", "packingpolicies.cotenant.dev"),
        ("update", "dljobs.cotenant.dev"),
        ("delete", "nodes"),
        ("*", "*"),
    ],
)
def test_no_account_may_reach_beyond_its_work(cluster: Cluster, account: str, verb: str, resource: str) -> None:
    assert not may(cluster, account, verb, resource)


@pytest.mark.parametrize(
    ("account", "verb", "resource"),
    [
        (SCHEDULER, "create", "jobs.batch"),
        (SCHEDULER, "get", "configmaps"),
        (SCHEDULER, "patch", "gpunodes.cotenant.dev/status"),
        (SCHEDULER, "patch", "dljobs.cotenant.dev/status"),
        (OPERATOR, "create", "pods"),
        (OPERATOR, "patch", "pods"),
        (OPERATOR, "delete", "pods"),
        (OPERATOR, "create", "pods/binding"),
        (OPERATOR, "patch", "gpunodes.cotenant.dev/status"),
        (OPERATOR, "delete", "serviceaccounts"),
        (OPERATOR, "patch", "roles.rbac.authorization.k8s.io"),
        (OPERATOR, "patch", "rolebindings.rbac.authorization.k8s.io"),
        (SCHEDULER, "create", "serviceaccounts"),
        (AGENT, "create", "rolebindings.rbac.authorization.k8s.io"),
        (AGENT, "patch", "pods"),
        (AGENT, "delete", "pods"),
        (AGENT, "create", "pods/binding"),
        (AGENT, "patch", "gpunodes.cotenant.dev"),
        (AGENT, "get", "configmaps"),
        (AGENT, "patch", "events"),
        (AGENT, "create", "pods/eviction"),
        (AGENT, "update", "gpunodes.cotenant.dev/status"),
        (AGENT, "update", "nodes"),
        (AGENT, "get", "leases.coordination.k8s.io"),
        (OPERATOR, "update", "jobs.batch"),
        (OPERATOR, "update", "deployments.apps"),
        (OPERATOR, "update", "dljobs.cotenant.dev/status"),
        (OPERATOR, "patch", "serviceaccounts"),
        (OPERATOR, "update", "services"),
        (OPERATOR, "create", "daemonsets.apps"),
        (OPERATOR, "delete", "deployments.apps"),
        (OPERATOR, "patch", "events"),
        (OPERATOR, "list", "namespaces"),
        (OPERATOR, "patch", "nodes"),
        (AGENT, "patch", "packingpolicies.cotenant.dev/status"),
    ],
)
def test_no_account_may_do_anothers_work(cluster: Cluster, account: str, verb: str, resource: str) -> None:
    assert not may(cluster, account, verb, resource)


def test_the_scheduler_writes_no_lease_but_its_own(cluster: Cluster) -> None:
    lease = "leases.coordination.k8s.io"
    assert may(cluster, SCHEDULER, "update", lease, namespace=RELEASE, name=names.SCHEDULER_LEASE)
    assert not may(cluster, SCHEDULER, "update", lease, namespace=RELEASE, name="node-h200-0")


@pytest.mark.parametrize("annotation", [name.partition("/")[2] for name in names.RESERVED_ANNOTATIONS])
def test_the_operator_sets_the_annotations_by_which_a_pod_gains_and_the_other_accounts_do_not(
    cluster: Cluster, annotation: str
) -> None:
    resource = f"{names.POD_ANNOTATIONS}.{names.GROUP}"
    assert may(cluster, OPERATOR, "set", resource, name=annotation)
    assert not may(cluster, OPERATOR, "set", resource, name="placement")
    assert not may(cluster, SCHEDULER, "set", resource, name=annotation)
    assert not may(cluster, AGENT, "set", resource, name=annotation)


def test_leases_elsewhere_are_nobodys(cluster: Cluster) -> None:
    """kube-scheduler's own role gives the scheduler's account more; admission narrows it (test_scheduler_objects)."""
    for account in (OPERATOR, AGENT):
        assert not may(cluster, account, "update", "leases.coordination.k8s.io", namespace="kube-system")


READING, WRITING = ("get", "list", "watch"), ("create", "update", "patch", "delete", "deletecollection")


@pytest.mark.parametrize(
    ("role", "verbs"),
    [("view", READING), ("edit", READING + WRITING), ("admin", READING + WRITING), ("cotenant-viewer", READING)],
)
def test_a_role_of_a_namespace_has_its_dljobs_as_well(cluster: Cluster, role: str, verbs: tuple[str, ...]) -> None:
    binding = {
        "metadata": {"name": f"test-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": RELEASE}],
    }
    path = clients.path_of("rolebindings", group="rbac.authorization.k8s.io", namespace="default")
    cluster.client.create(path, binding)
    # The controller that adds rules to these roles comes by a moment later.
    wanted = set(verbs)
    waiting.wait_until(
        lambda: allowed(cluster, role, "dljobs.cotenant.dev") == wanted, f"the rights of {role}", SECONDS
    )
    assert not may(cluster, role, "patch", "dljobs.cotenant.dev/status")
    assert not may(cluster, role, "patch", "packingpolicies.cotenant.dev")
    cluster.client.delete(f"{path}/test-{role}")


def test_who_may_view_the_cluster_reads_five_kinds_and_changes_nothing(cluster: Cluster) -> None:
    binding = {
        "metadata": {"name": "test-viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cotenant-viewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "anybody", "namespace": RELEASE}],
    }
    path = clients.path_of("clusterrolebindings", group="rbac.authorization.k8s.io")
    cluster.client.create(path, binding)
    kinds = ("nodes", "pods", "dljobs.cotenant.dev", "gpunodes.cotenant.dev", "packingpolicies.cotenant.dev")
    waiting.wait_until(lambda: may(cluster, "anybody", "list", "nodes"), "the viewer's rights", SECONDS)
    assert {kind: allowed(cluster, "anybody", kind) for kind in kinds} == {kind: set(READING) for kind in kinds}
    for kind in ("secrets", "configmaps", "pods/log"):
        assert allowed(cluster, "anybody", kind) == set()
    cluster.client.delete(f"{path}/test-viewer")


def allowed(cluster: Cluster, account: str, resource: str) -> set[str]:
    """Which of all verbs an account may use, in the namespace `default`."""
    return {verb for verb in READING + WRITING if may(cluster, account, verb, resource)}
