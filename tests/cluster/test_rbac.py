"""What each account may do, asked of the API server; the rest is refused."""

import pytest

from cotenant_api import names
from cotenant_e2e.cluster import Cluster

SCHEDULER, OPERATOR, AGENT = names.SCHEDULER_ACCOUNT, names.OPERATOR_ACCOUNT, names.NODE_AGENT_ACCOUNT
RELEASE = names.RELEASE_NAMESPACE


def may(
    cluster: Cluster, account: str, verb: str, resource: str, *, namespace: str = "default", name: str = ""
) -> bool:
    """Ask as `kubectl auth can-i` does: `resource` is plural[.group][/subresource]."""
    plural, _, subresource = resource.partition("/")
    plural, _, group = plural.partition(".")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{RELEASE}:{account}", "resourceAttributes": attributes},
    }
    answer = cluster.client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize(
    ("account", "verb", "resource"),
    [
        (SCHEDULER, "create", "pods/binding"),
        (SCHEDULER, "patch", "pods"),
        (SCHEDULER, "patch", "pods/status"),
        (SCHEDULER, "watch", "gpunodes.cotenant.dev"),
        (SCHEDULER, "create", "pods/eviction"),
        (OPERATOR, "create", "jobs.batch"),
        (OPERATOR, "patch", "dljobs.cotenant.dev/status"),
        (OPERATOR, "patch", "packingpolicies.cotenant.dev/status"),
        (OPERATOR, "get", "configmaps"),
        (OPERATOR, "create", "configmaps"),
        (OPERATOR, "patch", "configmaps"),
        (OPERATOR, "delete", "configmaps"),
        (OPERATOR, "create", "serviceaccounts"),
        (OPERATOR, "create", "services"),
        (OPERATOR, "create", "roles.rbac.authorization.k8s.io"),
        (OPERATOR, "create", "rolebindings.rbac.authorization.k8s.io"),
        (AGENT, "patch", "gpunodes.cotenant.dev/status"),
        (AGENT, "watch", "pods"),
        (AGENT, "watch", "nodes"),
        (AGENT, "watch", "packingpolicies.cotenant.dev"),
        (AGENT, "watch", "resourceslices.resource.k8s.io"),
        (AGENT, "create", "events"),
        (AGENT, "create", "pods/eviction"),
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
        ("patch", "dljobs.cotenant.dev"),
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
        (AGENT, "patch", "packingpolicies.cotenant.dev/status"),
    ],
)
def test_no_account_may_do_anothers_work(cluster: Cluster, account: str, verb: str, resource: str) -> None:
    assert not may(cluster, account, verb, resource)


def test_the_scheduler_writes_no_lease_but_its_own(cluster: Cluster) -> None:
    lease = "leases.coordination.k8s.io"
    assert may(cluster, SCHEDULER, "update", lease, namespace=RELEASE, name=names.SCHEDULER_LEASE)
    assert not may(cluster, SCHEDULER, "update", lease, namespace=RELEASE, name="node-h200-0")


def test_leases_elsewhere_are_nobodys(cluster: Cluster) -> None:
    for account in (OPERATOR, AGENT):
        assert not may(cluster, account, "update", "leases.coordination.k8s.io", namespace="kube-system")
