"""Who holds which GPU, and who held it lately. Pure: the previous status is the only memory."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from cotenant_api import conditions, gpunode, placement
from cotenant_api.names import GPUUID, Namespace, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.gpus import hardware

MAX_TENANTS = 64


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A pod with its placement: one that is bound here, or one that was granted it, until that grant ends."""

    uid: PodUID
    namespace: Namespace
    pod: str
    booked: placement.Placement


@dataclass(frozen=True)
class Alone:
    """How long a tenant had a GPU to itself, and the sum of the GPU's utilization over that time."""

    seconds: float = 0.0
    percent_seconds: float = 0.0

    @classmethod
    def published(cls, entry: gpunode.Tenant | gpunode.Ended) -> Self:
        """As a status tells it."""
        seconds = float(entry.alone_seconds or 0)
        return cls(seconds, seconds * (entry.alone_utilization_percent or 0))

    def plus(self, seconds: float, utilization_percent: float) -> Self:
        """With more time."""
        return type(self)(self.seconds + seconds, self.percent_seconds + seconds * utilization_percent)

    @property
    def whole_seconds(self) -> int | None:
        """Whole seconds; None: less than one."""
        return int(self.seconds) or None

    @property
    def mean_percent(self) -> int | None:
        """The mean utilization; None: not measured."""
        return round(self.percent_seconds / self.seconds) if self.whole_seconds else None


Held = list[tuple[Holder, placement.GPUBooking]]
Owners = Mapping[int, PodUID | None]
"""Whose the processes on a GPU are; None: no pod's."""


def holders(valid: Iterable[pods.BoundPod], granted: Iterable[Holder]) -> tuple[Holder, ...]:
    """All holders. Of a pod that was granted a placement, that one counts, whatever its annotation says now."""
    bound = {
        each.uid: Holder(uid=each.uid, namespace=each.namespace, pod=each.name, booked=each.booked)
        for each in valid
        if each.booked is not None
    }
    return tuple((bound | {each.uid: each for each in granted}).values())


def held(uuid: GPUUID, all_holders: Iterable[Holder]) -> Held:
    """Those who hold a GPU, in an order that does not depend on events."""
    found = [(each, booking) for each in all_holders for booking in each.booked.gpus if booking.uuid == uuid]
    return sorted(found, key=lambda pair: (pair[0].namespace, pair[0].pod, pair[0].uid))


def tenants(
    held_by: Held,
    memory: Mapping[PodUID, int],
    old: gpunode.GPU | None,
    *,
    alone: Mapping[PodUID, Alone],
    evict: Mapping[PodUID, gpunode.EvictionReason],
) -> tuple[gpunode.Tenant, ...]:
    """Return the tenants of a GPU, each with its memory (MiB), its peak, its time alone, and whether it should go."""
    known = _known(old)
    peaks = {uid: entry.memory_peak_mib for uid, entry in known.items()}
    times = {uid: Alone.published(entry) for uid, entry in known.items()} | dict(alone)
    made = [
        gpunode.Tenant(
            pod_uid=each.uid,
            namespace=each.namespace,
            pod=each.pod,
            memory_used_mib=memory.get(each.uid, 0),
            memory_peak_mib=max(memory.get(each.uid, 0), peaks.get(each.uid, 0)),
            memory_limit_mib=booking.memory_mib or None,
            alone_seconds=times.get(each.uid, Alone()).whole_seconds,
            alone_utilization_percent=times.get(each.uid, Alone()).mean_percent,
            evict=evict.get(each.uid),
        )
        for each, booking in held_by
    ]
    return tuple(made[:MAX_TENANTS])


def to_evict(
    asked: Mapping[PodUID, gpunode.EvictionReason],
    old: gpunode.GPU | None,
    *,
    serves: bool,
    let_go: Collection[PodUID] = frozenset(),
) -> Mapping[PodUID, gpunode.EvictionReason]:
    """Return who should go, of a GPU as it was published and of those that are asked for now.

    What an agent asked for first stands, also when it is started again. `serves`: the GPU's MPS server does, so that no
    tenant keeps it from recovering any more. `let_go`: pods that keep no GPU from it any more.
    """
    blocks = gpunode.EvictionReason.BLOCKS_RECOVERY
    before = {uid: entry.evict for uid, entry in _known(old).items() if entry.evict is not None}
    settled = {uid for uid, reason in before.items() if reason is blocks and (serves or uid in let_go)}
    return dict(asked) | {uid: reason for uid, reason in before.items() if uid not in settled}


def memory_by_pod(usage: hardware.Usage | None, owners: Mapping[int, PodUID]) -> dict[PodUID, int]:
    """MiB of all processes of each pod."""
    sums: dict[PodUID, int] = {}
    for process in usage.processes if usage else ():
        owner = owners.get(process.pid)
        if owner is not None:
            sums[owner] = sums.get(owner, 0) + process.memory_mib
    return sums


def foreign(
    usage: hardware.Usage | None, owners: Mapping[int, PodUID], *, uids: Collection[PodUID], own: Collection[int]
) -> int:
    """Return how many processes no tenant of the GPU explains, nor the agent: MPS servers are its `own`."""
    processes = usage.processes if usage else ()
    return len(unexplained({each.pid: owners.get(each.pid) for each in processes if each.pid not in own}, uids=uids))


def unexplained(owners: Owners, *, uids: Collection[PodUID]) -> tuple[int, ...]:
    """Return the processes of a GPU that are none of its tenants'."""
    return tuple(pid for pid, owner in sorted(owners.items()) if owner not in uids)


def with_ended(gpu: gpunode.GPU, old: gpunode.GPU | None, now: datetime) -> gpunode.GPU:
    """Return the GPU with those who ended on it: the newest, for `ENDED_SECONDS`."""
    if old is None:
        return gpu
    present = {tenant.pod_uid for tenant in gpu.tenants}
    earliest = conditions.timestamp(now - timedelta(seconds=gpunode.ENDED_SECONDS))
    kept = [entry for entry in old.ended if entry.pod_uid not in present and entry.time > earliest]
    listed = present | {entry.pod_uid for entry in kept}
    gone = [_ended(tenant, now) for tenant in old.tenants if tenant.pod_uid not in listed]
    return gpu.model_copy(update={"ended": tuple([*kept, *gone][-gpunode.ENDED_LIMIT :])})


def _ended(tenant: gpunode.Tenant, now: datetime) -> gpunode.Ended:
    return gpunode.Ended(
        pod_uid=tenant.pod_uid,
        memory_peak_mib=tenant.memory_peak_mib,
        alone_seconds=tenant.alone_seconds,
        alone_utilization_percent=tenant.alone_utilization_percent,
        evict=tenant.evict,
        time=conditions.timestamp(now),
    )


def _known(old: gpunode.GPU | None) -> dict[PodUID, gpunode.Tenant | gpunode.Ended]:
    """Return what was told of each; an ended tenant that is back (an event came late) keeps its figures, too."""
    if old is None:
        return {}
    ended: dict[PodUID, gpunode.Tenant | gpunode.Ended] = {entry.pod_uid: entry for entry in old.ended}
    return ended | {tenant.pod_uid: tenant for tenant in old.tenants}
