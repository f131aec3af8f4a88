"""Cordon a node, and evict pods through the Eviction API, which asks PodDisruptionBudgets."""

from typing import Any

from cotenant_api.names import PodUID
from cotenant_cli.reading import kube, objects
from cotenant_cli.sending import kube as sending


def cordon(connection: kube.Connection, node: str) -> None:
    """Have the node take no new pods.

    Raises:
        RefusedError, TemporaryError: as `sending.send`.
    """
    patch = {"spec": {"unschedulable": True}}
    path = f"/api/v1/nodes/{node}"
    sending.send(
        connection, sending.Request(method="PATCH", path=path, body=patch, content_type=sending.MERGE, query=[_MANAGER])
    )


def evict(connection: kube.Connection, pod: objects.Pod, *, dry_run: bool) -> None:
    """End a pod as its budget allows; never another one of the same name.

    Raises:
        TooManyError: a PodDisruptionBudget is against it for now.
        GoneError, ConflictError: it is gone, or another pod has its name.
        RefusedError, TemporaryError: as `sending.send`.
    """
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
    sending.send(connection, sending.Request(method="POST", path=path, body=_eviction(pod, pod.uid, dry_run=dry_run)))


_MANAGER = ("fieldManager", "cotenant-drain")


def _eviction(pod: objects.Pod, uid: PodUID, *, dry_run: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"preconditions": {"uid": uid}}
    if dry_run:
        options["dryRun"] = ["All"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options,
    }
