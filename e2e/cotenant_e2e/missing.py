"""Groups of the objects that our manifests bring: delete one, as by mistake, and start the API server again.

Nothing here puts them back: `installation.apply_manifests` does.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from cotenant_api import names, rootless
from cotenant_e2e import client as clients
from cotenant_e2e import components, installation, waiting
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster

SECONDS: Final = 60
ADMITTING: Final = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")


def of_kinds(*kinds: str, name: str = "") -> list[Json]:
    """Return the objects of these kinds; `name`: a part of theirs."""
    folders = ("crds", "rbac", "admission")
    paths = [path for folder in folders for path in sorted((installation.MANIFESTS / folder).glob("*.yaml"))]
    every = [yaml.safe_load_all(path.read_text()) for path in (*paths, installation.MANIFESTS / "policy.yaml")]
    found = [document for documents in every for document in documents if document]
    return [one for one in found if one["kind"] in kinds and name in one["metadata"]["name"]]


GROUPS: Final[Mapping[str, Sequence[Json]]] = {
    "kinds": of_kinds("CustomResourceDefinition"),
    "accounts and roles": of_kinds("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "bindings of policies": of_kinds(*(f"{kind}Binding" for kind in ADMITTING)),
    "policies": of_kinds(*ADMITTING),
    "namespace": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.RELEASE_NAMESPACE}}],
}


def remove(cluster: Cluster, gone: Sequence[Json]) -> None:
    """Delete objects, and start the API server again, which reads what it judges by as it starts."""
    if gone:
        objects = {"apiVersion": "v1", "kind": "List", "items": list(gone)}
        cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=objects)
    # Told to stop, it would wait for those who watch.
    cluster.kill(components.API_SERVER)
    cluster.restart(components.API_SERVER)


def wait_until_judged(cluster: Cluster, gone: Sequence[Json]) -> None:
    """Wait until our rules act, or until they do no more where they are gone: a moment after the API server is ready.

    Raises:
        NotReadyError: not within a minute.
    """
    judged = not any(one["kind"].startswith(ADMITTING) for one in gone)
    waiting.wait_until(lambda: is_refused(cluster) is judged, f"rules in force: {judged}", SECONDS)


def is_refused(cluster: Cluster) -> bool:
    """Return whether a pod that asks for a share and for its host's network is refused by a rule."""
    container = {
        "name": "main",
        "image": "none",
        "resources": {"limits": {names.GPU_SHARE: "1"}},
        "securityContext": rootless.PROVEN,
    }
    pod: Json = {"metadata": {"name": "refused"}, "spec": {"hostNetwork": True, "containers": [container]}}
    try:
        cluster.client.create(f"{clients.path_of('pods', namespace='default')}?dryRun=All", pod)
    except clients.APIError as error:
        return ADMITTING[0] in error.message
    return False
