"""A snapshot from lists of raw objects, whoever gives them. Reads no clock."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

from cotenant_api import errors, names, packingpolicy
from cotenant_api.names import Namespace
from cotenant_predictor import devices
from cotenant_simulator.live import reading, snapshot

Object = Mapping[str, Any]
Read = TypeVar("Read")


class Lists(Protocol):
    """Lists objects of an API server."""

    def __call__(self, path: str, read: Callable[[Object], Read | None], /) -> Sequence[Read]:
        """Return what was read of each object of a path, where that is something; nothing of a kind that is not known.

        A list may be long: its objects are let go as soon as they are read, and may be read again.
        """
        ...


_OURS: Final = f"/apis/{names.API_VERSION}"
NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
GPUNODES: Final = f"{_OURS}/gpunodes"
DLJOBS: Final = f"{_OURS}/dljobs"
POLICIES: Final = f"{_OURS}/packingpolicies"


def taken(lists: Lists, *, now: datetime) -> snapshot.Snapshot:
    """Return the cluster.

    Raises:
        InvalidInputError: a node or the policy cannot be read.
    """
    agents = dict(lists(GPUNODES, lambda raw: (raw["metadata"]["name"], raw)))
    read = lists(NODES, lambda raw: reading.node(raw, agents.get(raw["metadata"]["name"])))
    nodes = tuple(sorted(read, key=lambda node: node.name))
    known = reading.models(nodes) | set(devices.load())
    pods, bad_pods = _each(lists, PODS, lambda raw: reading.pod_of(raw, known))
    with_pods = {(pod.namespace, pod.dljob) for pod in pods}
    dljobs, bad_dljobs = _each(lists, DLJOBS, lambda raw: reading.dljob_of(raw, known))
    return snapshot.Snapshot(
        taken=now,
        policy=next(iter(lists(POLICIES, _policy)), None),
        nodes=nodes,
        pods=tuple(sorted(pods, key=lambda pod: (pod.created, pod.namespace, pod.name))),
        dljobs=tuple(
            sorted(
                (one for one in dljobs if (one.namespace, one.name) not in with_pods),
                key=lambda one: (one.created, one.namespace, one.name),
            )
        ),
        unread=(*bad_pods, *bad_dljobs),
    )


def _policy(raw: Object) -> packingpolicy.PackingPolicy | None:
    if raw["metadata"]["name"] != packingpolicy.NAME:
        return None
    return packingpolicy.PackingPolicy.from_object(dict(raw))


def _each(lists: Lists, path: str, read: Callable[[Object], Read | None]) -> tuple[list[Read], list[snapshot.Unread]]:
    """Return what was read, and what cannot be."""

    def reading_one(raw: Object) -> tuple[Read | None, snapshot.Unread | None] | None:
        try:
            one = read(raw)
        except errors.InvalidInputError as error:
            at = raw["metadata"]
            return None, snapshot.Unread(namespace=Namespace(at["namespace"]), name=at["name"], field=error.field)
        return None if one is None else (one, None)

    found = lists(path, reading_one)
    return [one for one, _ in found if one is not None], [bad for _, bad in found if bad is not None]
