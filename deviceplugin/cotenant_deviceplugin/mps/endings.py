"""When the processes of a pod that is being deleted are taken off their GPU. Pure.

kubelet kills what is left of a pod when its grace period ends, and a client that is killed while busy may take its
neighbours along (https://docs.nvidia.com/deploy/mps/latest/when-to-use-mps.html, "client early termination"). So what
is still a client shortly before is ended through its server. Never earlier: the grace period is the pod's.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cotenant_api.names import GPUUID, PodUID

LEAD_SECONDS: Final = 5
"""How long before the end of the grace period."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A pod that is being deleted.

    Attributes:
        gpu: which it has a part of; a pod without MPS is not named here.
        deletion: `metadata.deletionTimestamp`: when the grace period ends, not when somebody asked for it.
        grace_seconds: `metadata.deletionGracePeriodSeconds`.
        seen_seconds: how long ago the agent has seen the deletion, by a clock that is never set.
        processes: PIDs of the pod, as the host counts.
    """

    pod: PodUID
    gpu: GPUUID
    deletion: datetime
    grace_seconds: int
    seen_seconds: float
    processes: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Termination:
    """A client to be ended through its server now."""

    pod: PodUID
    gpu: GPUUID
    pid: int


def is_due(ending: Ending, now: datetime) -> bool:
    """Return whether its clients are ended now: at once where the whole grace period is shorter than the lead.

    The sooner of two clocks counts. `deletion` is the API server's time: where the node's clock is behind, kubelet
    kills before `now` gets there. kubelet itself counts from when it hears of the deletion, as the agent does. But an
    agent that has started since knows only `deletion`.
    """
    lead_seconds = min(LEAD_SECONDS, ending.grace_seconds)
    by_clock = now >= ending.deletion - timedelta(seconds=lead_seconds)
    return by_clock or ending.seen_seconds >= ending.grace_seconds - lead_seconds


def due(
    endings: Iterable[Ending], *, clients: Mapping[GPUUID, AbstractSet[int]], now: datetime
) -> tuple[Termination, ...]:
    """Return what is to be ended now.

    Processes of pods whose time has come, that are still clients of their GPU's server.

    Asked again, it names again whatever is still among `clients`: a lost answer or a restart of the agent changes
    nothing. Whom the server has ended it lists as long as the process lives: who asks leaves these out.
    """
    return tuple(
        Termination(pod=ending.pod, gpu=ending.gpu, pid=pid)
        for ending in endings
        if is_due(ending, now)
        for pid in sorted(ending.processes & clients.get(ending.gpu, frozenset()))
    )
