"""What a GPUNode's status says, from what its agent sees. Pure: no clock, no I/O.

The previous status is the only memory: peaks and ended tenants survive a restart of the agent through it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cotenant_api import conditions, gpunode, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.gpus import hardware

USAGE_POINTS = 10
"""Usage is written when it has moved this far, in percentage points ..."""
USAGE_WRITE_SECONDS = 60
"""... and not written again for so long."""
MAX_TENANTS = 64
MAX_REFUSED = 128

AGENT_READY = "AgentReady"
DRIVER_MISSING = "DriverMissing"
EXCLUDED_REASON = "excluded by spec.excludedGPUs"
LOST_REASON = "the driver does not list this GPU any more"
UNREADABLE_REASON = "the driver cannot be asked"


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
class Observed:
    """Everything a status is made of, at one moment.

    Attributes:
        generation: of the GPUNode whose `spec.excludedGPUs` is `excluded_gpus`.
        pods: every pod bound to the node that asks for a share.
    """

    node: NodeName
    agent_version: str
    machine: Machine
    pods: tuple[pods.BoundPod, ...]
    container_runtime: str | None = None
    generation: int | None = None
    excluded_gpus: frozenset[GPUUID] = frozenset()


def of(observed: Observed, *, previous: gpunode.Status | None, now: datetime) -> gpunode.Status:
    """The status that the agent should publish."""
    before = gpunode.Status() if previous is None else previous
    machine = observed.machine
    live = tuple(bound for bound in observed.pods if not bound.finished)
    kept = _kept(machine, before, live)
    known = None if machine.fault else {gpu.uuid for gpu in machine.devices} | {gpu.uuid for gpu in kept}
    reasons = {bound.uid: pods.refusal(bound, node=observed.node, known=known) for bound in live}
    valid = tuple(bound for bound in live if reasons[bound.uid] is None)
    old = {gpu.uuid: gpu for gpu in before.gpus}
    present = [_present(device, observed, valid, old.get(device.uuid)) for device in machine.devices]
    gpus = [*present, *(_absent(gpu, machine, valid) for gpu in kept)]
    return gpunode.Status(
        observed_generation=observed.generation,
        agent_version=observed.agent_version,
        driver_version=machine.driver.driver_version if machine.driver else before.driver_version,
        cuda_version=machine.driver.cuda_version if machine.driver else before.cuda_version,
        container_runtime=observed.container_runtime,
        simulated=machine.simulated,
        conditions=conditions.updated(before.conditions, _ready(observed), now=now),
        refused=_refused(reasons),
        gpus=tuple(_with_ended(gpu, old.get(gpu.uuid), now) for gpu in sorted(gpus, key=lambda gpu: gpu.index)),
    )


def worth_writing(
    old: gpunode.Status | None, new: gpunode.Status, *, last_written: datetime | None, now: datetime
) -> bool:
    """Whether `new` is to be written over `old`.

    At once: health, mode, tenants, refusals, conditions, versions, and a tenant's first use of memory. Usage that
    moved by at least `USAGE_POINTS` of the GPU, and the end of `ended` entries: at most once in `USAGE_WRITE_SECONDS`.

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
    machine = observed.machine
    count = len(machine.devices)
    kind = "simulated GPU" if machine.simulated else "GPU"
    fault = machine.fault
    return conditions.Condition(
        type=gpunode.READY,
        status=conditions.Status.TRUE if fault is None else conditions.Status.FALSE,
        reason=AGENT_READY if fault is None else DRIVER_MISSING,
        message=fault or f"{count} {kind}{'' if count == 1 else 's'}",
        observed_generation=observed.generation,
    )


def _kept(machine: Machine, before: gpunode.Status, live: Collection[pods.BoundPod]) -> tuple[gpunode.GPU, ...]:
    """GPUs that are not seen but must stay listed: all while the driver is silent, else those still held."""
    seen = {device.uuid for device in machine.devices}
    uids = {bound.uid for bound in live}
    return tuple(
        gpu
        for gpu in before.gpus
        if gpu.uuid not in seen and (machine.fault or any(tenant.pod_uid in uids for tenant in gpu.tenants))
    )


def _present(
    device: hardware.Device, observed: Observed, valid: Iterable[pods.BoundPod], old: gpunode.GPU | None
) -> gpunode.GPU:
    usage = observed.machine.usage.get(device.uuid)
    held = _held(device.uuid, valid)
    memory = _memory_by_pod(usage, observed.machine.owners)
    excluded = device.uuid in observed.excluded_gpus
    uids = {bound.uid for bound, _ in held}
    return gpunode.GPU(
        uuid=device.uuid,
        index=device.index,
        model=device.model,
        memory_mib=device.memory_mib,
        sm_count=device.sm_count,
        compute_capability=device.compute_capability,
        mode=_mode(held, excluded=excluded),
        health=gpunode.Health.HEALTHY,
        reason=EXCLUDED_REASON if excluded else None,
        utilization_percent=usage.utilization_percent if usage else None,
        memory_used_mib=usage.memory_used_mib if usage else None,
        foreign_processes=_foreign(usage, observed.machine.owners, uids),
        tenants=_tenants(held, memory, old),
        last_fault=old.last_fault if old else None,
    )


def _absent(gpu: gpunode.GPU, machine: Machine, valid: Iterable[pods.BoundPod]) -> gpunode.GPU:
    """A GPU that is not seen: closed, its tenants those that still live."""
    changes = {
        "health": gpunode.Health.UNHEALTHY,
        "reason": UNREADABLE_REASON if machine.fault else LOST_REASON,
        "utilization_percent": None,
        "memory_used_mib": None,
        "tenants": _tenants(_held(gpu.uuid, valid), {}, gpu),
    }
    return gpu.model_copy(update=changes)


Held = list[tuple[pods.BoundPod, placement.GPUBooking]]


def _held(uuid: GPUUID, valid: Iterable[pods.BoundPod]) -> Held:
    """The pods placed on a GPU, in an order that does not depend on events."""
    found = [
        (bound, booking)
        for bound in valid
        if bound.booked is not None
        for booking in bound.booked.gpus
        if booking.uuid == uuid
    ]
    return sorted(found, key=lambda pair: (pair[0].namespace, pair[0].name, pair[0].uid))


def _tenants(held: Held, memory: Mapping[PodUID, int], old: gpunode.GPU | None) -> tuple[gpunode.Tenant, ...]:
    peaks = _peaks(old)
    tenants = [
        gpunode.Tenant(
            pod_uid=bound.uid,
            namespace=bound.namespace,
            pod=bound.name,
            memory_used_mib=memory.get(bound.uid, 0),
            memory_peak_mib=max(memory.get(bound.uid, 0), peaks.get(bound.uid, 0)),
            memory_limit_mib=booking.memory_mib or None,
        )
        for bound, booking in held
    ]
    return tuple(tenants[:MAX_TENANTS])


def _peaks(old: gpunode.GPU | None) -> dict[PodUID, int]:
    if old is None:
        return {}
    # An ended tenant that is back (an event came late) keeps its peak too.
    ended = {entry.pod_uid: entry.memory_peak_mib for entry in old.ended}
    return ended | {tenant.pod_uid: tenant.memory_peak_mib for tenant in old.tenants}


def _mode(held: Held, *, excluded: bool) -> gpunode.Mode:
    if excluded:
        return gpunode.Mode.EXCLUDED
    backends = {bound.booked.backend for bound, _ in held if bound.booked is not None}
    return gpunode.Mode.WHOLE if placement.Backend.WHOLE in backends else gpunode.Mode.SHARED


def _memory_by_pod(usage: hardware.Usage | None, owners: Mapping[int, PodUID]) -> dict[PodUID, int]:
    sums: dict[PodUID, int] = {}
    for process in usage.processes if usage else ():
        owner = owners.get(process.pid)
        if owner is not None:
            sums[owner] = sums.get(owner, 0) + process.memory_mib
    return sums


def _foreign(usage: hardware.Usage | None, owners: Mapping[int, PodUID], uids: Collection[PodUID]) -> int:
    """Processes that no tenant of the GPU explains."""
    return sum(owners.get(process.pid) not in uids for process in (usage.processes if usage else ()))


def _with_ended(gpu: gpunode.GPU, old: gpunode.GPU | None, now: datetime) -> gpunode.GPU:
    """The GPU with those who ended on it: the newest, for `ENDED_SECONDS`."""
    if old is None:
        return gpu
    present = {tenant.pod_uid for tenant in gpu.tenants}
    earliest = conditions.timestamp(now - timedelta(seconds=gpunode.ENDED_SECONDS))
    kept = [entry for entry in old.ended if entry.pod_uid not in present and entry.time > earliest]
    listed = present | {entry.pod_uid for entry in kept}
    gone = [
        gpunode.Ended(pod_uid=tenant.pod_uid, memory_peak_mib=tenant.memory_peak_mib, time=conditions.timestamp(now))
        for tenant in old.tenants
        if tenant.pod_uid not in listed
    ]
    return gpu.model_copy(update={"ended": tuple([*kept, *gone][-gpunode.ENDED_LIMIT :])})


def _refused(reasons: Mapping[PodUID, str | None]) -> tuple[gpunode.Refused, ...]:
    refused = [
        gpunode.Refused(pod_uid=uid, reason=reason[:1024])
        for uid, reason in sorted(reasons.items())
        if reason is not None
    ]
    return tuple(refused[:MAX_REFUSED])


def _without_usage(status: gpunode.Status) -> gpunode.Status:
    return status.model_copy(update={"gpus": tuple(_gpu_without_usage(gpu) for gpu in status.gpus)})


def _gpu_without_usage(gpu: gpunode.GPU) -> gpunode.GPU:
    tenants = tuple(
        tenant.model_copy(update={"memory_used_mib": int(tenant.memory_used_mib > 0), "memory_peak_mib": 0})
        for tenant in gpu.tenants
    )
    unmeasured = {"utilization_percent": None, "memory_used_mib": None, "ended": (), "tenants": tenants}
    return gpu.model_copy(update=unmeasured)


def _moved(old: gpunode.GPU, new: gpunode.GPU) -> bool:
    """Whether one GPU's usage is worth telling; memory counts in percent of the GPU's."""
    pairs = [
        (old.memory_used_mib or 0, new.memory_used_mib or 0),
        *((a.memory_used_mib, b.memory_used_mib) for a, b in zip(old.tenants, new.tenants, strict=True)),
        *((a.memory_peak_mib, b.memory_peak_mib) for a, b in zip(old.tenants, new.tenants, strict=True)),
    ]
    utilization = abs((old.utilization_percent or 0) - (new.utilization_percent or 0))
    memory = max(abs(a - b) for a, b in pairs) * 100
    return utilization >= USAGE_POINTS or memory >= USAGE_POINTS * max(new.memory_mib, 1) or old.ended != new.ended
