"""What `cotenant top` shows: GPUs and their tenants, predicted beside booked beside observed. Pure.

Predicted and booked are of the pods' annotations, observed is of the GPUNodes: an agent writes usage when it changes by
10 points, at most once a minute. A job's own utilization is known only while it is alone on its GPU.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from pydantic import Field

from cotenant_api import conditions, documents, gpunode, placement, prediction
from cotenant_api.names import GPUUID, GPUModel
from cotenant_cli.reading import cluster, objects


class Predicted(documents.Model):
    """What was expected of a tenant on this GPU's model; bounds are upper bounds."""

    utilization_percent: float
    upper_percent: float
    memory_mib: int = Field(alias="memoryMiB")
    source: prediction.Source


class Booked(documents.Model):
    """What a tenant has of the GPU; `share` in hundredths, `activeThreadPercentage` of its SMs."""

    share: int
    active_thread_percentage: int
    memory_mib: int = Field(alias="memoryMiB")


class Observed(documents.Model):
    """What the node agent saw of a tenant; `alone`: while it had the GPU to itself."""

    memory_used_mib: int = Field(alias="memoryUsedMiB")
    memory_peak_mib: int = Field(alias="memoryPeakMiB")
    alone_seconds: int | None
    alone_utilization_percent: int | None


class Tenant(documents.Model):
    """A pod on a GPU; null: not known, or not to be read by this account."""

    namespace: str
    pod: str
    dljob: str | None
    predicted: Predicted | None
    booked: Booked | None
    observed: Observed | None


class GPU(documents.Model):
    """A GPU.

    Attributes:
        ready: whether its node agent says so of itself; it takes no pods otherwise.
        reason: what is wrong with the GPU or its agent.
        simulated: there is no such GPU; its figures are made up.
        predicted_percent, booked_share, booked_memory_mib: sums over the tenants of which they are known.
        tenant_count: of all namespaces.
        unknown_tenants: those of which nothing of it is, with pods of namespaces that were not asked for.
        unpredicted_tenants: those of which there is no prediction, the unknown among them.
        utilization_percent: of the whole GPU.
        tenants: of the namespace that was asked for.
    """

    node: str
    index: int
    uuid: str
    model: str
    mode: gpunode.Mode
    health: gpunode.Health
    mps: gpunode.MPS
    ready: bool
    reason: str | None
    simulated: bool
    predicted_percent: float
    booked_share: int
    booked_memory_mib: int = Field(alias="bookedMemoryMiB")
    tenant_count: int
    unknown_tenants: int
    unpredicted_tenants: int
    utilization_percent: int | None
    memory_used_mib: int | None = Field(alias="memoryUsedMiB")
    memory_mib: int = Field(alias="memoryMiB")
    foreign_processes: int
    tenants: tuple[Tenant, ...]


class Usage(documents.Document):
    """Version 1 of what `cotenant top -o json` prints."""

    taken: str
    gpus: tuple[GPU, ...]
    notes: tuple[str, ...]


Held = Mapping[GPUUID, Sequence[tuple[objects.Pod, placement.GPUBooking]]]


def usage(seen: cluster.Seen, *, namespace: str | None, now: datetime) -> Usage:
    """GPUs by node and index; with a namespace, those that its pods have a part of."""
    held = _held(seen.pods)
    gpus = [_gpu(node, gpu, held, namespace) for node in seen.nodes for gpu in _sorted(node.status.gpus)]
    shown = tuple(gpu for gpu in gpus if namespace is None or gpu.tenants)
    return Usage(taken=conditions.timestamp(now), gpus=shown, notes=tuple(_notes(seen, held, shown)))


def bookings(pod: objects.Pod) -> tuple[placement.GPUBooking, ...]:
    """Return what a pod has of GPUs; nothing, once it has ended."""
    return () if pod.placement is None or pod.over else pod.placement.gpus


def _held(pods: Iterable[objects.Pod]) -> Held:
    held: dict[GPUUID, list[tuple[objects.Pod, placement.GPUBooking]]] = defaultdict(list)
    for pod in pods:
        for booking in bookings(pod):
            held[booking.uuid].append((pod, booking))
    return held


def _sorted(gpus: Iterable[gpunode.GPU]) -> list[gpunode.GPU]:
    return sorted(gpus, key=lambda gpu: (gpu.index, gpu.uuid))


def _gpu(node: objects.Node, gpu: gpunode.GPU, held: Held, namespace: str | None) -> GPU:
    booked = held.get(gpu.uuid, ())
    seen = {tenant.pod_uid: tenant for tenant in gpu.tenants}
    known = [_tenant(pod, booking, seen.pop(pod.uid, None), gpu.model) for pod, booking in booked]
    unknown = [_unknown(tenant) for tenant in seen.values()]
    ready = node.ready
    up = ready is not None and ready.status is conditions.Status.TRUE
    return GPU(
        node=node.name,
        index=gpu.index,
        uuid=gpu.uuid,
        model=gpu.model,
        mode=gpu.mode,
        health=gpu.health,
        mps=gpu.mps,
        ready=up,
        reason=gpu.reason if up or ready is None else f"{ready.reason}: {ready.message}",
        simulated=node.status.simulated,
        predicted_percent=sum(one.predicted.utilization_percent for one in known if one.predicted),
        booked_share=sum(booking.share for _, booking in booked),
        booked_memory_mib=sum(booking.memory_mib for _, booking in booked),
        tenant_count=len(known) + len(unknown),
        unknown_tenants=len(unknown),
        unpredicted_tenants=sum(one.predicted is None for one in (*known, *unknown)),
        utilization_percent=gpu.utilization_percent,
        memory_used_mib=gpu.memory_used_mib,
        memory_mib=gpu.memory_mib,
        foreign_processes=gpu.foreign_processes,
        tenants=tuple(one for one in (*known, *unknown) if namespace in (None, one.namespace)),
    )


def _tenant(pod: objects.Pod, booking: placement.GPUBooking, seen: gpunode.Tenant | None, model: GPUModel) -> Tenant:
    return Tenant(
        namespace=pod.namespace,
        pod=pod.name,
        dljob=pod.dljob,
        predicted=_predicted(pod, model),
        booked=Booked(
            share=booking.share,
            active_thread_percentage=booking.active_thread_percentage,
            memory_mib=booking.memory_mib,
        ),
        observed=None if seen is None else _observed(seen),
    )


def _unknown(seen: gpunode.Tenant) -> Tenant:
    return Tenant(
        namespace=seen.namespace, pod=seen.pod, dljob=None, predicted=None, booked=None, observed=_observed(seen)
    )


def _predicted(pod: objects.Pod, model: GPUModel) -> Predicted | None:
    document = None if pod.demand is None else pod.demand.predicted
    if document is None or model not in document.by_gpu:
        return None
    row = document.by_gpu[model]
    return Predicted(
        utilization_percent=row.utilization.q50,
        upper_percent=row.utilization.upper,
        memory_mib=row.memory_mib.upper,
        source=document.source,
    )


def _observed(seen: gpunode.Tenant) -> Observed:
    return Observed(
        memory_used_mib=seen.memory_used_mib,
        memory_peak_mib=seen.memory_peak_mib,
        alone_seconds=seen.alone_seconds,
        alone_utilization_percent=seen.alone_utilization_percent,
    )


def _notes(seen: cluster.Seen, held: Held, shown: Sequence[GPU]) -> Iterator[str]:
    yield from seen.notes
    yield from (node.unread for node in seen.nodes if node.unread is not None)
    yield from (f"{pod.namespace}/{pod.name}: {pod.unread}" for pod in seen.pods if pod.unread is not None)
    told = {gpu.uuid for node in seen.nodes for gpu in node.status.gpus}
    for uuid in sorted(set(held) - told):
        holders = ", ".join(f"{pod.namespace}/{pod.name}" for pod, _ in held[uuid])
        yield f"{uuid} is booked for {holders}, and no GPUNode lists it"
    simulated = sorted({gpu.node for gpu in shown if gpu.simulated})
    if simulated:
        yield f"these nodes' GPUs are simulated, and so is what is observed there: {', '.join(simulated)}"
