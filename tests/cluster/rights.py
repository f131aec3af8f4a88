"""What an account may do, asked of the API server."""

from cotenant_api import names
from cotenant_e2e.cluster import Cluster


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
        "spec": {
            "user": f"system:serviceaccount:{names.RELEASE_NAMESPACE}:{account}",
            "resourceAttributes": attributes,
        },
    }
    answer = cluster.client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
