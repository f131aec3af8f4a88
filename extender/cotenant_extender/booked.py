"""Placements of pods as the ledger keeps them: read once, checked, light. Pure."""

import hashlib
from typing import Any, NamedTuple, TypeAlias

import orjson

from cotenant_api import errors, names, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import sharing


class Booking(NamedTuple):
    """What is booked on one GPU: hundredths, memory in MiB, the percentage of the SMs, and the client priority."""

    uuid: GPUUID
    share: int
    memory_mib: int
    thread_percentage: int
    client_priority: int


class Placed(NamedTuple):
    """A placement document that was read; its model would weigh several times as much, for every pod there is.

    Attributes:
        digest: of the text that was read.
    """

    pod_uid: PodUID
    node: NodeName
    container: str
    policy_generation: int
    backend: placement.Backend
    processes_per_gpu: int
    gpus: tuple[Booking, ...]
    digest: bytes

    def to_object(self) -> dict[str, Any]:
        """Return the document as JSON object."""
        gpus = tuple(
            placement.GPUBooking(
                uuid=gpu.uuid,
                share=gpu.share,
                active_thread_percentage=gpu.thread_percentage,
                memory_mib=gpu.memory_mib,
                client_priority=gpu.client_priority,
            )
            for gpu in self.gpus
        )
        made = placement.Placement(
            pod_uid=self.pod_uid,
            node=self.node,
            container=self.container,
            policy_generation=self.policy_generation,
            backend=self.backend,
            processes_per_gpu=self.processes_per_gpu,
            gpus=gpus,
        )
        return made.to_object()


AnyPlaced: TypeAlias = Placed | placement.Placement
"""A placement as read, or as packing made it."""


def bookings(placed: AnyPlaced) -> tuple[Booking, ...]:
    """Return what a placement books."""
    if isinstance(placed, Placed):
        return placed.gpus
    return tuple(
        Booking(gpu.uuid, gpu.share, gpu.memory_mib, gpu.active_thread_percentage, gpu.client_priority)
        for gpu in placed.gpus
    )


def read(text: str, *, uid: PodUID, node: NodeName, known: AnyPlaced | None = None) -> Placed | None:
    """Return a placement, if it can be read and is this pod's on this node: else there is none.

    A placement stands on its pod through many events: `known` is what was read before, and is not read again.
    """
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    if isinstance(known, Placed) and (known.digest, known.pod_uid, known.node) == (digest, uid, node):
        return known
    try:
        found = _document(text)
    except errors.InvalidInputError:
        return None
    if found.pod_uid != uid or found.node != node:
        return None
    return Placed(
        pod_uid=uid,
        node=node,
        container=sharing.text(found.container),
        policy_generation=found.policy_generation,
        backend=found.backend,
        processes_per_gpu=found.processes_per_gpu,
        gpus=bookings(found),
        digest=digest,
    )


def _document(text: str) -> placement.Placement:
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        # What orjson refuses, Python may read; if not, it says why.
        return placement.Placement.from_json(text, source=names.PLACEMENT)
    return placement.Placement.from_object(value, source=names.PLACEMENT)
