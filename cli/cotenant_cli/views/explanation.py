"""What `cotenant why` shows: why a job waits, or why it is where it is, in the words of its conditions. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from pydantic import Field

from cotenant_api import conditions, dljob, documents, errors, gpunode, names, packingpolicy, places, prediction
from cotenant_api import pod as pods
from cotenant_api.names import GPUUID
from cotenant_cli.reading import cluster, objects
from cotenant_cli.views import usage

SUBJECT: Final = "JOB"
GATED: Final = "SchedulingGated"
"""As the API server words it."""
_ENDINGS: Final = (dljob.FAILED, dljob.COMPLETE, dljob.SUSPENDED)


class Asked(documents.Model):
    """What each pod asks for: hundredths of a GPU, and memory where it is not taken from the prediction."""

    share: int
    memory_mib: int | None = Field(alias="memoryMiB")
    gpu_models: tuple[str, ...]
    gang_size: int | None


class Expected(documents.Model):
    """What is predicted on one GPU model; bounds are upper bounds."""

    gpu_model: str
    utilization_percent: float
    upper_percent: float
    memory_mib: int = Field(alias="memoryMiB")
    regime: prediction.Regime
    out_of_domain: bool
    source: prediction.Source
    model: str


class Neighbour(documents.Model):
    """Another pod on the same GPU; its share is null where this account may not read it."""

    namespace: str
    pod: str
    share: int | None


class Part(documents.Model):
    """What a pod has of one GPU; null: no GPUNode that this account may read tells of it."""

    uuid: str
    index: int | None
    model: str | None
    health: gpunode.Health | None
    share: int
    active_thread_percentage: int
    memory_mib: int = Field(alias="memoryMiB")
    neighbours: tuple[Neighbour, ...]


class Replica(documents.Model):
    """One pod, what holds it up or that it is placed, and where it is."""

    index: int | None
    pod: str
    phase: str
    reason: str
    message: str
    node: str | None
    policy_generation: int | None
    gpus: tuple[Part, ...]


class Policy(documents.Model):
    """What is in force for the job's GPU model, where it has one, else for most."""

    generation: int
    mode: packingpolicy.Mode
    paused: bool
    placement: packingpolicy.Placement
    order: packingpolicy.Order
    tenancy: packingpolicy.Tenancy
    max_tenants_per_gpu: int = Field(alias="maxTenantsPerGPU")


class Explanation(documents.Document):
    """Version 1 of what `cotenant why -o json` prints.

    Attributes:
        kind: DLJob, Pod or Job.
        reason, message: of the condition that decides; empty where nothing has been said yet.
        since: when the job first asked.
    """

    taken: str
    kind: str
    namespace: str
    name: str
    phase: str
    reason: str
    message: str
    queue_position: int | None
    since: str
    asked: Asked | None
    expected: tuple[Expected, ...]
    replicas: tuple[Replica, ...]
    policy: Policy | None
    conditions: tuple[conditions.Condition, ...]
    notes: tuple[str, ...]


def explained(seen: cluster.Seen, *, namespace: str, name: str, now: datetime) -> Explanation:
    """Why the job of that name waits, or is where it is: a DLJob, else a pod, else the pods of a Job.

    Raises:
        InvalidInputError: there is none that asks for a share.
    """
    kind, own = _subject(seen, namespace, name)
    replicas = tuple(_replica(pod, seen) for pod in own)
    said = _decides(seen.dljob, replicas)
    status = None if seen.dljob is None else seen.dljob.status
    phase = status.phase if status is not None else replicas[0].phase
    asking = next((pod.demand for pod in own if pod.demand is not None), None)
    since = [seen.dljob.created] if seen.dljob is not None else []
    return Explanation(
        taken=conditions.timestamp(now),
        kind=kind,
        namespace=namespace,
        name=name,
        phase=phase or dljob.Phase.PENDING,
        reason=said.reason,
        message=said.message,
        queue_position=places.position(said.message),
        since=min((pod.since for pod in own), default=(since or [""])[0]),
        asked=None if asking is None else _asked(asking),
        expected=() if asking is None or asking.predicted is None else tuple(_expected(asking.predicted)),
        replicas=replicas,
        policy=None if seen.policy is None else _policy(seen.policy, replicas),
        conditions=status.conditions if status is not None else (),
        notes=tuple(_notes(seen, own)),
    )


def _subject(seen: cluster.Seen, namespace: str, name: str) -> tuple[str, Sequence[objects.Pod]]:
    if seen.dljob is not None:
        listed = {replica.pod for replica in seen.dljob.status.replicas}
        own = [pod for pod in seen.pods if pod.dljob == name and (pod.name in listed if listed else not pod.over)]
        return "DLJob", sorted(own, key=lambda pod: (pod.index or 0, pod.name))
    for kind, found in (
        ("Pod", [pod for pod in seen.pods if pod.name == name]),
        ("Job", [pod for pod in seen.pods if pod.job == name]),
    ):
        if found:
            return kind, sorted(found, key=lambda pod: (pod.over, pod.index or 0, pod.name))
    remedy = (
        f"no DLJob has this name, and no pod or Job that asks for {names.GPU_SHARE}: "
        f"kubectl get dljobs,pods -n {namespace} lists what is there; -n names another namespace"
    )
    raise errors.NotFoundError(SUBJECT, f"{namespace}/{name}", remedy)


def _decides(job: objects.DLJob | None, replicas: Sequence[Replica]) -> objects.Said:
    """Return what the operator says of a DLJob, which are the extender's words where it waits.

    Else what is said of a pod.
    """
    if job is None:
        waiting = [one for one in replicas if one.node is None]
        first = (*waiting, *replicas)[0]
        return objects.Said(reason=first.reason, message=first.message)
    known = job.status.conditions
    over = [one for kind in _ENDINGS if (one := conditions.find(known, kind)) and one.status is conditions.Status.TRUE]
    queued = conditions.find(known, dljob.QUEUED)
    found = over[0] if over else queued
    if found is None:
        return objects.Said(reason="", message="the operator has not told of it yet: see whether it runs")
    return objects.Said(reason=found.reason, message=found.message)


def _replica(pod: objects.Pod, seen: cluster.Seen) -> Replica:
    said = _said(pod)
    return Replica(
        index=pod.index,
        pod=pod.name,
        phase=pod.phase,
        reason=said.reason,
        message=said.message,
        node=pod.node,
        policy_generation=None if pod.placement is None else pod.placement.policy_generation,
        gpus=tuple(_parts(pod, seen)),
    )


def _said(pod: objects.Pod) -> objects.Said:
    """Why a pod waits, or that it does not."""
    if pod.unread is not None:
        return objects.Said(reason=pods.PackedReason.INVALID_REQUEST, message=pod.unread)
    others = [gate for gate in pod.gates if gate != names.PACKING_GATE]
    if others:
        return objects.Said(reason=GATED, message=f"others have to lift their gates first: {', '.join(others)}")
    if pod.node is not None and pod.held_up is not None and not pod.over:
        return pod.held_up
    placed = objects.Said(reason=pods.PackedReason.PLACED, message="")
    silent = objects.Said(reason="", message="the packing queue has not answered yet: see whether the extender runs")
    if pod.node is not None:
        return placed if pod.packed is None else pod.packed
    return pod.packed or pod.scheduled or silent


def _parts(pod: objects.Pod, seen: cluster.Seen) -> Iterator[Part]:
    told = {gpu.uuid: gpu for node in seen.nodes for gpu in node.status.gpus}
    for booking in () if pod.placement is None else pod.placement.gpus:
        gpu = told.get(booking.uuid)
        yield Part(
            uuid=booking.uuid,
            index=None if gpu is None else gpu.index,
            model=None if gpu is None else gpu.model,
            health=None if gpu is None else gpu.health,
            share=booking.share,
            active_thread_percentage=booking.active_thread_percentage,
            memory_mib=booking.memory_mib,
            neighbours=() if pod.over else _neighbours(pod, booking.uuid, gpu, seen.pods),
        )


def _neighbours(
    pod: objects.Pod, uuid: GPUUID, gpu: gpunode.GPU | None, others: Sequence[objects.Pod]
) -> tuple[Neighbour, ...]:
    """Booked on the same GPU, with those that its agent alone tells of."""
    shares: Mapping[tuple[str, str], int | None] = {
        (tenant.namespace, tenant.pod): None for tenant in (() if gpu is None else gpu.tenants)
    } | {
        (other.namespace, other.name): booking.share
        for other in others
        for booking in usage.bookings(other)
        if booking.uuid == uuid
    }
    return tuple(
        Neighbour(namespace=namespace, pod=name, share=share)
        for (namespace, name), share in sorted(shares.items())
        if (namespace, name) != (pod.namespace, pod.name)
    )


def _asked(demand: pods.Demand) -> Asked:
    return Asked(
        share=demand.share,
        memory_mib=demand.memory_mib,
        gpu_models=tuple(sorted(demand.gpu_models)),
        gang_size=None if demand.gang is None else demand.gang.size,
    )


def _expected(document: prediction.Prediction) -> Iterator[Expected]:
    for model, row in sorted(document.by_gpu.items()):
        yield Expected(
            gpu_model=model,
            utilization_percent=row.utilization.q50,
            upper_percent=row.utilization.upper,
            memory_mib=row.memory_mib.upper,
            regime=row.regime,
            out_of_domain=row.out_of_domain,
            source=document.source,
            model=document.model,
        )


def _policy(policy: packingpolicy.PackingPolicy, replicas: Sequence[Replica]) -> Policy:
    model = next((part.model for one in replicas for part in one.gpus if part.model is not None), None)
    packing = policy.spec if model is None else policy.spec.packing(names.GPUModel(model))
    return Policy(
        generation=policy.generation,
        mode=policy.spec.mode,
        paused=policy.spec.paused,
        placement=packing.placement,
        order=policy.spec.queue.order,
        tenancy=packing.tenancy,
        max_tenants_per_gpu=packing.max_tenants_per_gpu,
    )


def _notes(seen: cluster.Seen, own: Sequence[objects.Pod]) -> Iterator[str]:
    yield from seen.notes
    job = seen.dljob
    if job is not None and (job.status.observed_generation or 0) < job.generation:
        yield "the operator has not looked at the last change of its spec yet"
    if seen.policy is not None and seen.policy.spec.paused and any(pod.node is None for pod in own):
        yield "PackingPolicy.spec.paused is true: nothing is placed until it is false"
    uids = {pod.uid for pod in own}
    nodes = {pod.node for pod in own}
    for node in seen.nodes:
        refused = (one.reason for one in node.status.refused if one.pod_uid in uids)
        yield from (f"the node agent of {node.name} refuses a pod of it: {reason}" for reason in refused)
        if node.name not in nodes:
            continue
        if node.unread is not None:
            yield node.unread
        if node.status.simulated:
            yield f"the GPUs of {node.name} are simulated"
