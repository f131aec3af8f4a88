"""What an account may do, asked of the API server."""

from cotenant_api import names
from cotenant_e2e.cluster import Cluster


def may(
    cluster: Cluster, account: str, verb: str, resource: str, *, namespace: str = "default", name: str = ""
) -> bool:
    """Ask for one of Cotenant's accounts: `resource` is plural[.group][/subresource]."""
    user = f"system:serviceaccount:{names.RELEASE_NAMESPACE}:{account}"
    return may_as(cluster, user, verb, resource, namespace=namespace, name=name)


def may_as(cluster: Cluster, user: str, verb: str, resource: str, *, namespace: str, name: str = "") -> bool:
    """Ask as `kubectl auth can-i` does, for a user by name."""
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
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = cluster.client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
