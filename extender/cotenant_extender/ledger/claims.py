"""What one pod counts: its claim on a node and its GPUs."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from cotenant_api import placement, pod, prediction
from cotenant_api.names import Namespace, NodeName, PodUID
from cotenant_extender import booked, records
from cotenant_extender.packing import view


class Kind(enum.Enum):
    """What a claim rests on."""

    BOUND = "a placement on a bound pod"
    RESERVED = "a Binding in flight"
    EARMARK = "an earmark"
    HOST_ONLY = "a bound pod that asks for no share"
    UNPLACED = "a bound pod without valid placement that has not started"
    UNREADABLE = "a running pod without valid placement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one pod counts.

    Attributes:
        share: hundredths of `cotenant.dev/gpu-share` that it requests of the node.
        bookings: what it books on GPUs; empty where no placement says which.
        suspect: the job that may share them with no other suspect; empty: it is none.
        lasts: whether it asks for no share, and runs until somebody deletes it.
    """

    uid: PodUID
    kind: Kind
    node: NodeName
    share: int
    host: view.HostNeed
    bookings: tuple[booked.Booking, ...]
    namespace: Namespace
    labels: Mapping[str, str]
    workload_type: pod.WorkloadType
    predicted: prediction.Prediction | None
    suspect: str = ""
    lasts: bool = False

    def counts_like(self, other: "Claim") -> bool:
        """Return whether another claim counts the same in the same place."""
        return (self.node, self.share, self.host, self.bookings, self.suspect, self.lasts) == (
            other.node,
            other.share,
            other.host,
            other.bookings,
            other.suspect,
            other.lasts,
        )


def claim(
    record: records.Pod,
    *,
    reserved: placement.Placement | None,
    earmarked: placement.Placement | None,
    suspect: str = "",
) -> Claim | None:
    """Return what a pod counts, by the strongest evidence there is: bound, then reserved, then earmarked."""
    if record.finished:
        return None
    if record.node is not None:
        return _claim(record, _bound_kind(record), record.node, record.placement, suspect=suspect)
    if reserved is not None:
        return _claim(record, Kind.RESERVED, reserved.node, reserved, suspect=suspect)
    if earmarked is not None and not record.deleting:
        return _claim(record, Kind.EARMARK, earmarked.node, earmarked, suspect=suspect)
    return None


def _bound_kind(record: records.Pod) -> Kind:
    if not record.asks:
        return Kind.HOST_ONLY
    if record.placement is not None:
        return Kind.BOUND
    return Kind.UNREADABLE if record.phase == records.RUNNING else Kind.UNPLACED


def _claim(record: records.Pod, kind: Kind, node: NodeName, where: booked.AnyPlaced | None, *, suspect: str) -> Claim:
    demand = None if record.request is None else record.request.demand
    return Claim(
        uid=record.uid,
        kind=kind,
        node=node,
        share=record.share,
        host=record.host,
        bookings=() if where is None else booked.bookings(where),
        namespace=record.namespace,
        labels=record.labels,
        workload_type=pod.WorkloadType.TRAINING if demand is None else demand.workload_type,
        predicted=None if demand is None else demand.predicted,
        suspect=suspect,
        lasts=kind is Kind.HOST_ONLY and record.tenure.endless and not record.deleting,
    )


def books_the_same(one: placement.Placement, other: placement.Placement) -> bool:
    """Return whether two placements book the same of the same GPUs."""
    first, second = ([(gpu.uuid, gpu.share, gpu.memory_mib) for gpu in placed.gpus] for placed in (one, other))
    return one.node == other.node and first == second
