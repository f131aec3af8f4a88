"""What a GPUNode's status says, from what its agent sees. Pure: no clock, no I/O.

The previous status is the only memory: peaks and ended tenants survive a restart of the agent through it.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cotenant_api import booking, conditions, gpunode, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.publishing import readiness, tenants
from cotenant_deviceplugin.publishing.tenants import Holder

USAGE_POINTS = 10
"""Usage is written when it has moved this far, in percentage points ..."""
USAGE_WRITE_SECONDS = 60
"""... and not written again for so long."""
MAX_REFUSED = 128
MAX_REASON = 1024

EXCLUDED_REASON = "excluded by spec.excludedGPUs"
MIG_REASON = "in MIG mode, which gives no shares"
LOST_REASON = "the driver does not list this GPU any more"
UNREADABLE_REASON = "the driver cannot be asked"
UNEXAMINED_REASON = "the agent has yet to examine it"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the hardware said.

    Attributes:
        fault: why it said nothing; `devices` and `usage` are then empty and mean nothing.
        owners: the pod of each process in `usage` that belongs to one.
    """

    simulated: bool
    driver: hardware.Driver | None = None
    devices: tuple[hardware.Device, ...] = ()
    usage: Mapping[GPUUID, hardware.Usage] = field(default_factory=dict)
    owners: Mapping[int, PodUID] = field(default_factory=dict)
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class GPUState:
    """What the agent has found out about one GPU by watching it."""

    mode: gpunode.Mode = gpunode.Mode.SHARED
    health: gpunode.Health
    reason: str | None = None
    mps: gpunode.MPS = gpunode.MPS.NOT_USED
    last_fault: gpunode.Fault | None = None


@dataclass(frozen=True, kw_only=True)
class View:
    """What the agent of a real node knows beside its hardware and its pods; simulated GPUs need nothing of it.

    Attributes:
        gpus: what is known of each GPU; None: GPUs are as they look, always healthy.
        granted: the placements that late binding has granted and that have not ended.
        refused: pods that late binding has refused for good, and why.
        evict: pods that should be evicted, and why.
        let_go: pods that keep no GPU from recovering, so that what an earlier agent published of that stands no longer.
        own_pids: processes on the GPUs that are the agent's doing: MPS servers.
        around: None: the node depends on nothing.
    """

    gpus: Mapping[GPUUID, GPUState] | None = None
    granted: tuple[Holder, ...] = ()
    refused: Mapping[PodUID, str] = field(default_factory=dict)
    evict: Mapping[PodUID, gpunode.EvictionReason] = field(default_factory=dict)
    let_go: frozenset[PodUID] = frozenset()
    own_pids: frozenset[int] = frozenset()
    around: readiness.Surroundings | None = None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Everything a status is made of, at one moment.

    Attributes:
        generation: of the GPUNode whose `spec.excludedGPUs` is `excluded_gpus`.
        pods: every pod bound to the node that asks for a share.
        alone: how long who had which GPU to itself, as far as this process has measured it.
    """

    node: NodeName
    agent_version: str
    machine: Machine
    pods: tuple[pods.BoundPod, ...]
    view: View = View()
    alone: Mapping[GPUUID, Mapping[PodUID, tenants.Alone]] = field(default_factory=dict)
    container_runtime: str | None = None
    generation: int | None = None
    excluded_gpus: frozenset[GPUUID] = frozenset()


def of(observed: Observed, *, previous: gpunode.Status | None, now: datetime) -> gpunode.Status:
    """Return the status that the agent should publish."""
    before = gpunode.Status() if previous is None else previous
    machine = observed.machine
    live = tuple(bound for bound in observed.pods if not bound.finished)
    kept = _kept(observed, before, live)
    reasons = _reasons(observed, live, kept)
    holders = tenants.holders((each for each in live if reasons[each.uid] is None), observed.view.granted)
    old = {gpu.uuid: gpu for gpu in before.gpus}
    present = [_present(device, observed, holders, old.get(device.uuid)) for device in machine.devices]
    gpus = [*present, *(_absent(gpu, machine, holders) for gpu in kept)]
    return gpunode.Status(
        observed_generation=observed.generation,
        agent_version=observed.agent_version,
        driver_version=machine.driver.driver_version if machine.driver else before.driver_version,
        cuda_version=machine.driver.cuda_version if machine.driver else before.cuda_version,
        container_runtime=observed.container_runtime,
        simulated=machine.simulated,
        conditions=conditions.updated(
            conditions.updated(before.conditions, _ready(observed), now=now), _overbooked(observed, live), now=now
        ),
        refused=_refused(reasons),
        gpus=tuple(tenants.with_ended(gpu, old.get(gpu.uuid), now) for gpu in sorted(gpus, key=lambda gpu: gpu.index)),
    )


def worth_writing(
    old: gpunode.Status | None, new: gpunode.Status, *, last_written: datetime | None, now: datetime
) -> bool:
    """Return whether `new` is to be written over `old`.

    At once: health, mode, tenants, refusals, conditions, versions, a tenant's first use of memory, and that it has
    been alone for MEASURED_SECONDS. Usage that moved by at least `USAGE_POINTS` of the GPU, and the end of `ended`
    entries: at most once in `USAGE_WRITE_SECONDS`. Other time alone is written with these, and causes no write.

    Args:
        old: what was written last; None: nothing yet.
        new: what could be written.
        last_written: when `old` was written; None: not by this process.
        now: the time.
    """
    if old is None or last_written is None or _without_usage(old) != _without_usage(new):
        return True
    waited = now - last_written >= timedelta(seconds=USAGE_WRITE_SECONDS)
    return waited and any(_moved(*pair) for pair in zip(old.gpus, new.gpus, strict=True))


def _ready(observed: Observed) -> conditions.Condition:
    found = _verdict(observed)
    return conditions.Condition(
        type=gpunode.READY,
        status=conditions.Status.TRUE if found.reason is readiness.Reason.AGENT_READY else conditions.Status.FALSE,
        reason=found.reason,
        message=found.message,
        observed_generation=observed.generation,
    )


def _overbooked(observed: Observed, live: Iterable[pods.BoundPod]) -> conditions.Condition:
    """Return whether bound pods book more of a GPU than it has: their placements are by no rule of ours."""
    told: list[str] = []
    placed = [gpu for each in live if each.booked is not None for gpu in each.booked.gpus]
    for device in observed.machine.devices:
        here = [gpu for gpu in placed if gpu.uuid == device.uuid]
        excess = booking.excess(
            shares=[gpu.share for gpu in here],
            memory_mib=[gpu.memory_mib for gpu in here],
            gpu_memory_mib=device.memory_mib,
        )
        told += [] if excess is None else [f"{device.uuid}: {excess}"]
    return conditions.Condition(
        type=gpunode.OVERBOOKED,
        status=conditions.Status.TRUE if told else conditions.Status.FALSE,
        reason="BookedTwice" if told else "WithinBounds",
        message="; ".join(told)[: conditions.MAX_MESSAGE],
        observed_generation=observed.generation,
    )


def _verdict(observed: Observed) -> readiness.Verdict:
    machine, around = observed.machine, observed.view.around
    if machine.fault is not None:
        return readiness.Verdict(readiness.Reason.DRIVER_MISSING, machine.fault)
    found = None if around is None else readiness.fault(around)
    if found is not None:
        return found
    count = len(machine.devices)
    kind = "simulated GPU" if machine.simulated else "GPU"
    offers = "" if around is None or around.offering else f"; the PackingPolicy offers no shares{_in_the_way(around)}"
    return readiness.Verdict(readiness.Reason.AGENT_READY, f"{count} {kind}{'' if count == 1 else 's'}{offers}")


def _in_the_way(around: readiness.Surroundings) -> str:
    """Return what would keep the node from sharing its GPUs if the policy had it do so."""
    found = readiness.obstacle(around)
    return "" if found is None else f", and in the way of any is {found.reason}: {found.message}"


def _kept(observed: Observed, before: gpunode.Status, live: Collection[pods.BoundPod]) -> tuple[gpunode.GPU, ...]:
    """GPUs that are not seen but must stay listed: all while the driver is silent, else those still held."""
    machine = observed.machine
    seen = {device.uuid for device in machine.devices}
    granted = observed.view.granted
    uids = {bound.uid for bound in live} | {holder.uid for holder in granted}
    return tuple(
        gpu
        for gpu in before.gpus
        if gpu.uuid not in seen
        and (machine.fault or any(tenant.pod_uid in uids for tenant in gpu.tenants) or tenants.held(gpu.uuid, granted))
    )


def _reasons(
    observed: Observed, live: Iterable[pods.BoundPod], kept: Iterable[gpunode.GPU]
) -> dict[PodUID, str | None]:
    """Why each pod is refused; what was granted once is not refused any more."""
    machine, view = observed.machine, observed.view
    known = None if machine.fault else {gpu.uuid for gpu in machine.devices} | {gpu.uuid for gpu in kept}
    granted = {holder.uid for holder in view.granted}
    return {
        bound.uid: None
        if bound.uid in granted
        else pods.refusal(bound, node=observed.node, known=known) or view.refused.get(bound.uid)
        for bound in live
    }


def _present(
    device: hardware.Device, observed: Observed, holders: Iterable[Holder], old: gpunode.GPU | None
) -> gpunode.GPU:
    machine, view = observed.machine, observed.view
    usage = machine.usage.get(device.uuid)
    held = tenants.held(device.uuid, holders)
    state = _state(device, observed, held, old)
    uids = {holder.uid for holder, _ in held}
    return gpunode.GPU(
        uuid=device.uuid,
        index=device.index,
        model=device.model,
        memory_mib=device.memory_mib,
        sm_count=device.sm_count,
        compute_capability=device.compute_capability,
        mode=state.mode,
        health=state.health,
        reason=None if state.reason is None else state.reason[:MAX_REASON],
        mps=state.mps,
        utilization_percent=usage.utilization_percent if usage else None,
        memory_used_mib=usage.memory_used_mib if usage else None,
        foreign_processes=tenants.foreign(usage, machine.owners, uids=uids, own=view.own_pids),
        tenants=tenants.tenants(
            held,
            tenants.memory_by_pod(usage, machine.owners),
            old,
            alone=observed.alone.get(device.uuid, {}),
            evict=tenants.to_evict(view.evict, old, serves=state.mps is gpunode.MPS.ACTIVE, let_go=view.let_go),
        ),
        last_fault=state.last_fault,
    )


def _state(device: hardware.Device, observed: Observed, held: tenants.Held, old: gpunode.GPU | None) -> GPUState:
    """Return what is known of a GPU, and over it what its node's admin and its own mode make of it."""
    last_fault = old.last_fault if old else None
    known = observed.view.gpus
    if known is None:
        state = GPUState(mode=_mode(held), health=gpunode.Health.HEALTHY, last_fault=last_fault)
    else:
        unexamined = GPUState(health=gpunode.Health.SUSPECT, reason=UNEXAMINED_REASON, last_fault=last_fault)
        state = known.get(device.uuid, unexamined)
        # An agent that has just started knows of a fault by the status that the last one left.
        state = dataclasses.replace(state, last_fault=state.last_fault or last_fault)
    if device.uuid in observed.excluded_gpus:
        return dataclasses.replace(state, mode=gpunode.Mode.EXCLUDED, reason=state.reason or EXCLUDED_REASON)
    if device.mig:
        return dataclasses.replace(state, mode=gpunode.Mode.MIG, reason=state.reason or MIG_REASON)
    return state


def _absent(gpu: gpunode.GPU, machine: Machine, holders: Iterable[Holder]) -> gpunode.GPU:
    """Return a GPU that is not seen: closed, its tenants those that still live."""
    changes = {
        "health": gpunode.Health.UNHEALTHY,
        "reason": UNREADABLE_REASON if machine.fault else LOST_REASON,
        "utilization_percent": None,
        "memory_used_mib": None,
        "tenants": tenants.tenants(
            tenants.held(gpu.uuid, holders), {}, gpu, alone={}, evict=tenants.to_evict({}, gpu, serves=False)
        ),
    }
    return gpu.model_copy(update=changes)


def _mode(held: tenants.Held) -> gpunode.Mode:
    backends = {holder.booked.backend for holder, _ in held}
    return gpunode.Mode.WHOLE if placement.Backend.WHOLE in backends else gpunode.Mode.SHARED


def _refused(reasons: Mapping[PodUID, str | None]) -> tuple[gpunode.Refused, ...]:
    refused = [
        gpunode.Refused(pod_uid=uid, reason=reason[:MAX_REASON])
        for uid, reason in sorted(reasons.items())
        if reason is not None
    ]
    return tuple(refused[:MAX_REFUSED])


def _without_usage(status: gpunode.Status) -> gpunode.Status:
    return status.model_copy(update={"gpus": tuple(_gpu_without_usage(gpu) for gpu in status.gpus)})


def _gpu_without_usage(gpu: gpunode.GPU) -> gpunode.GPU:
    tenants = tuple(_tenant_without_usage(tenant) for tenant in gpu.tenants)
    unmeasured = {"utilization_percent": None, "memory_used_mib": None, "ended": (), "tenants": tenants}
    return gpu.model_copy(update=unmeasured)


def _tenant_without_usage(tenant: gpunode.Tenant) -> gpunode.Tenant:
    """Return what of a tenant is told at once: who, whether it uses memory, and whether it has been measured alone."""
    update = {
        "memory_used_mib": int(tenant.memory_used_mib > 0),
        "memory_peak_mib": 0,
        "alone_seconds": int((tenant.alone_seconds or 0) >= gpunode.MEASURED_SECONDS),
        "alone_utilization_percent": None,
    }
    return tenant.model_copy(update=update)


def _moved(old: gpunode.GPU, new: gpunode.GPU) -> bool:
    """Return whether one GPU's usage is worth telling; memory counts in percent of the GPU's."""
    pairs = [
        (old.memory_used_mib or 0, new.memory_used_mib or 0),
        *((a.memory_used_mib, b.memory_used_mib) for a, b in zip(old.tenants, new.tenants, strict=True)),
        *((a.memory_peak_mib, b.memory_peak_mib) for a, b in zip(old.tenants, new.tenants, strict=True)),
    ]
    utilization = abs((old.utilization_percent or 0) - (new.utilization_percent or 0))
    memory = max(abs(a - b) for a, b in pairs) * 100
    return utilization >= USAGE_POINTS or memory >= USAGE_POINTS * max(new.memory_mib, 1) or old.ended != new.ended
