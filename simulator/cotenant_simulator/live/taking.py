"""A snapshot from lists of raw objects, whoever gives them. Reads no clock."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from cotenant_api import errors, names, packingpolicy
from cotenant_api.names import Namespace
from cotenant_predictor import devices
from cotenant_simulator.live import reading, snapshot

Object = Mapping[str, Any]
Lists = Callable[[str], Iterable[Object]]
"""The objects of a path of the API server; nothing where it knows no such kind."""

_OURS: Final = f"/apis/{names.API_VERSION}"
NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
GPUNODES: Final = f"{_OURS}/gpunodes"
DLJOBS: Final = f"{_OURS}/dljobs"
POLICIES: Final = f"{_OURS}/packingpolicies"

Read = TypeVar("Read")


def taken(lists: Lists, *, now: datetime) -> snapshot.Snapshot:
    """The cluster.

    Raises:
        InvalidInputError: a node or the policy cannot be read.
    """
    agents = {one["metadata"]["name"]: one for one in lists(GPUNODES)}
    read = (reading.node(one, agents.get(one["metadata"]["name"])) for one in lists(NODES))
    nodes = tuple(sorted((node for node in read if node is not None), key=lambda node: node.name))
    known = reading.models(nodes) | set(devices.load())
    unread: list[snapshot.Unread] = []
    pods = _each(lists(PODS), lambda raw: reading.pod_of(raw, known), unread)
    with_pods = {(pod.namespace, pod.dljob) for pod in pods}
    dljobs = _each(lists(DLJOBS), lambda raw: reading.dljob_of(raw, known), unread)
    return snapshot.Snapshot(
        taken=now,
        policy=_policy(lists(POLICIES)),
        nodes=nodes,
        pods=tuple(sorted(pods, key=lambda pod: (pod.created, pod.namespace, pod.name))),
        dljobs=tuple(
            sorted(
                (one for one in dljobs if (one.namespace, one.name) not in with_pods),
                key=lambda one: (one.created, one.namespace, one.name),
            )
        ),
        unread=tuple(unread),
    )


def _policy(found: Iterable[Object]) -> packingpolicy.PackingPolicy | None:
    raw = next((one for one in found if one["metadata"]["name"] == packingpolicy.NAME), None)
    return None if raw is None else packingpolicy.PackingPolicy.from_object(dict(raw))


def _each(raws: Iterable[Object], read: Callable[[Object], Read | None], unread: list[snapshot.Unread]) -> list[Read]:
    found = []
    for raw in raws:
        try:
            one = read(raw)
        except errors.InvalidInputError as error:
            metadata = raw["metadata"]
            unread.append(
                snapshot.Unread(namespace=Namespace(metadata["namespace"]), name=metadata["name"], field=error.field)
            )
            continue
        if one is not None:
            found.append(one)
    return found
