"""Why a GPU refuses a pod, in the words that are used everywhere.

A refusal is the cause on one GPU; a rejection is the tally of them: the reason of the pod's condition and a message
such as "2 GPUs hold 3 jobs, 1 lacks 3.1 GiB, 4 are another model".
"""

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant_api.pod import PackedReason

MIB_PER_GIB = 1024


class Cause(enum.Enum):
    """Why one GPU refuses; reason of the condition, and the predicate for one GPU and for several.

    In the order of the checks.
    """

    OTHER_MODEL = PackedReason.GPU_MODEL_MISMATCH, "is another model", "are another model"
    NOT_PREDICTED = PackedReason.GPU_MODEL_MISMATCH, "is a model without prediction", "are models without prediction"
    MEMORY_ABOVE_SHARE = (
        PackedReason.INVALID_REQUEST,
        "takes so much gpu-memory only for a gpu-share of {}",
        "take so much gpu-memory only for a gpu-share of {}",
    )
    EXCLUDED = PackedReason.UNHEALTHY_GPU, "is excluded by its GPUNode", "are excluded by their GPUNode"
    MIG = PackedReason.UNHEALTHY_GPU, "is in MIG mode", "are in MIG mode"
    UNHEALTHY = PackedReason.UNHEALTHY_GPU, "is not healthy", "are not healthy"
    NODE_GONE = PackedReason.UNHEALTHY_GPU, "is on a node that is gone", "are on nodes that are gone"
    AGENT_NOT_READY = PackedReason.UNHEALTHY_GPU, "has a node agent that is not ready", "have node agents not ready"
    AGENT_SILENT = PackedReason.UNHEALTHY_GPU, "has a silent node agent", "have silent node agents"
    UNREADABLE = (
        PackedReason.FOREIGN_USE,
        "is on a node that runs a pod without readable placement",
        "are on nodes that run a pod without readable placement",
    )
    UNEXPLAINED = PackedReason.FOREIGN_USE, "has a tenant that no pod explains", "have tenants that no pod explains"
    OVERBOOKED = PackedReason.INSUFFICIENT_SHARE, "is booked beyond what it has", "are booked beyond what they have"
    FOREIGN_USE = PackedReason.FOREIGN_USE, "is used by foreign processes", "are used by foreign processes"
    NODE_REFUSES = (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "is on a node that is cordoned, not ready, tainted or not selected",
        "are on nodes that are cordoned, not ready, tainted or not selected",
    )
    VOLUMES = (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "is on a node that cannot use the pod's volumes",
        "are on nodes that cannot use the pod's volumes",
    )
    SCHEDULER_REFUSES = (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "is on a node that kube-scheduler refused for the pod (affinity, spread, ports, volumes, other resources)",
        "are on nodes that kube-scheduler refused for the pod (affinity, spread, ports, volumes, other resources)",
    )
    HELD = PackedReason.WAITING_FOR_TURN, "is held for a job that waits longer", "are held for a job that waits longer"
    TENANCY = PackedReason.TENANCY_CONFLICT, "serves another tenancy", "serve another tenancy"
    SUSPECT = (
        PackedReason.TENANCY_CONFLICT,
        "holds another job that may have caused a fault",
        "hold other jobs that may have caused a fault",
    )
    NAMESPACE_LIMIT = (
        PackedReason.TENANT_LIMIT,
        "is beyond maxGPUsPerNamespace of the PackingPolicy",
        "are beyond maxGPUsPerNamespace of the PackingPolicy",
    )
    NAMESPACE_KEPT = (
        PackedReason.WAITING_FOR_TURN,
        "is beyond maxGPUsPerNamespace beside what is held for a job of the namespace that waits longer",
        "are beyond maxGPUsPerNamespace beside what is held for a job of the namespace that waits longer",
    )
    PROMISED = (
        PackedReason.WAITING_FOR_TURN,
        "is promised to a job that is being bound",
        "are promised to jobs that are being bound",
    )
    TENANT_LIMIT = PackedReason.TENANT_LIMIT, "holds {}", "hold {}"
    LACKS_SHARE = PackedReason.INSUFFICIENT_SHARE, "lacks {}", "lack {}"
    LACKS_MEMORY = PackedReason.INSUFFICIENT_MEMORY, "lacks {}", "lack {}"
    KEPT = (
        PackedReason.WAITING_FOR_TURN,
        "is on a node whose free cpu, memory or pods are kept for a job that waits longer",
        "are on nodes whose free cpu, memory or pods are kept for a job that waits longer",
    )
    LACKS_TOKENS = (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "is on a node that offers too little cotenant.dev/gpu-share",
        "are on nodes that offer too little cotenant.dev/gpu-share",
    )
    LACKS_CPU = PackedReason.INSUFFICIENT_HOST_RESOURCES, "is on a node short of cpu", "are on nodes short of cpu"
    LACKS_HOST_MEMORY = (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "is on a node short of memory",
        "are on nodes short of memory",
    )
    LACKS_PODS = (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "is on a node that holds as many pods as it may",
        "are on nodes that hold as many pods as they may",
    )
    TOO_FEW = (
        PackedReason.INSUFFICIENT_SHARE,
        "is on a node with too few free GPUs",
        "are on nodes with too few free GPUs",
    )

    def __init__(self, reason: PackedReason, one: str, several: str) -> None:
        self.reason, self.one, self.several = reason, one, several

    @property
    def passes_by_waiting(self) -> bool:
        """Whether another job's end can lift this refusal."""
        return self.reason in _TRANSIENT


_TRANSIENT = frozenset(
    {
        PackedReason.TENANCY_CONFLICT,
        PackedReason.TENANT_LIMIT,
        PackedReason.INSUFFICIENT_SHARE,
        PackedReason.INSUFFICIENT_MEMORY,
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        PackedReason.WAITING_FOR_TURN,
    }
)


CAUSES = tuple(Cause)
_CODES = {cause: place for place, cause in enumerate(CAUSES, start=1)}


def code(cause: Cause | None) -> int:
    """Return a cause as a number, for arrays; 0: none. `CAUSES[code - 1]` is the cause."""
    return 0 if cause is None else _CODES[cause]


class Refusals(NamedTuple):
    """Why GPUs refuse.

    Attributes:
        codes: codes of the causes, any shape; 0 where there is no GPU.
        amounts: tenants that it holds, hundredths or MiB that it lacks; 0 where the cause has no amount. Same shape.
    """

    codes: NDArray[np.uint8]
    amounts: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """Why no GPU takes a pod.

    Attributes:
        counts: GPUs by reason.
        message: the tally in words.
    """

    reason: PackedReason
    counts: dict[PackedReason, int]
    message: str


def rejection(refusals: Refusals) -> Rejection:
    """Return the tally of all GPUs' refusals."""
    counted = np.bincount(refusals.codes.ravel(), minlength=1)
    counts = {CAUSES[code - 1]: int(counted[code]) for code in np.flatnonzero(counted) if code > 0}
    if not counts:
        message = "no node offers a GPU"
        return Rejection(reason=PackedReason.INSUFFICIENT_SHARE, counts={}, message=message)
    by_reason: Counter[PackedReason] = Counter()
    for cause, count in counts.items():
        by_reason[cause.reason] += count
    ordered = _in_order(counts)
    parts = [
        _phrase(cause, counts[cause], _amount(cause, refusals), first=place == 0) for place, cause in enumerate(ordered)
    ]
    return Rejection(reason=ordered[0].reason, counts=dict(by_reason), message=", ".join(parts))


def by_node(refusals: Refusals) -> list[str]:
    """Reason and tally of each node's GPUs, without amounts: many nodes say the same, so that it can be counted.

    Args:
        refusals: shape (N, G).
    """
    codes = np.sort(refusals.codes, axis=1)
    # Rows that are equal as multisets get equal sums; that others do, too, would only lend them the same words.
    keys = codes.astype(np.uint64) @ (_SPREADING ** np.arange(codes.shape[1], dtype=np.uint64))
    _, firsts, places = np.unique(keys, return_index=True, return_inverse=True)
    told = [_in_short(codes[first].tolist()) for first in firsts]
    return [told[place] for place in places.tolist()]


_SPREADING = np.uint64(6364136223846793005)


def _in_short(codes: list[int]) -> str:
    counts = Counter(CAUSES[code - 1] for code in codes if code > 0)
    if not counts:
        return f"{PackedReason.INSUFFICIENT_SHARE}: the node offers no GPU"
    ordered = _in_order(counts)
    parts = [
        _phrase(cause, counts[cause], _VAGUE.get(cause, ""), first=place == 0) for place, cause in enumerate(ordered)
    ]
    return f"{ordered[0].reason}: {', '.join(parts)}"


_VAGUE = {
    Cause.MEMORY_ABOVE_SHARE: "as large a part",
    Cause.TENANT_LIMIT: "as many jobs as it may",
    Cause.LACKS_SHARE: "share",
    Cause.LACKS_MEMORY: "memory",
}


def _in_order(counts: Mapping[Cause, int]) -> list[Cause]:
    """Return the nearest to a placement first, then by number."""
    return sorted(counts, key=lambda cause: (_distance(cause), -counts[cause], _CODES[cause]))


def _distance(cause: Cause) -> int:
    """0: another job's end can change it; 1: an admin can; 2: it is no GPU for this pod."""
    if cause.passes_by_waiting:
        return 0
    return 2 if cause.reason is PackedReason.GPU_MODEL_MISMATCH else 1


def _phrase(cause: Cause, count: int, amount: str, *, first: bool) -> str:
    noun = (" GPU" if count == 1 else " GPUs") if first else ""
    predicate = cause.one if count == 1 else cause.several
    return f"{count}{noun} {predicate.format(amount)}"


def _amount(cause: Cause, refusals: Refusals) -> str:
    if cause not in _VAGUE:
        return ""
    amounts = refusals.amounts[refusals.codes == code(cause)]
    least = int(amounts.min())
    bound = "" if least == amounts.max() else "at least "
    match cause:
        case Cause.TENANT_LIMIT:
            return f"{bound}{least} {'job' if least == 1 else 'jobs'}"
        case Cause.MEMORY_ABOVE_SHARE:
            return f"at least {least} hundredths"
        case Cause.LACKS_SHARE:
            return f"{bound}{least} {'hundredth' if least == 1 else 'hundredths'}"
        case _:
            return f"{bound}{memory(least)}"


def memory(mib: int) -> str:
    """As a person says it, rounded up: never "lacks 0.0 GiB"."""
    return _in_words(mib, -(-mib * 10 // MIB_PER_GIB))


def memory_within(mib: int) -> str:
    """As `memory`, rounded down: who asks for what is said gets it."""
    return _in_words(mib, mib * 10 // MIB_PER_GIB)


def _in_words(mib: int, tenths: int) -> str:
    return f"{mib} MiB" if mib < MIB_PER_GIB else f"{tenths // 10}.{tenths % 10} GiB"
