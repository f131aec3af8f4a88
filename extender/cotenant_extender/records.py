"""Raw Kubernetes objects as records: only what packing needs, frozen, read once at the boundary. Pure.

A pod whose GPU request or annotations cannot be read still makes a record, which says why: it counts, and goes nowhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cotenant_api import conditions, documents, errors, gpunode, names, pod
from cotenant_api.names import GPUUID, GPUModel, Namespace, NodeName, PodUID
from cotenant_extender import amounts, booked, podreports, podrequests, sharing, storage, tenures
from cotenant_extender.packing import conflicts, constraints, view

Object = Mapping[str, Any]

RUNNING = "Running"
TERMINAL_PHASES = ("Succeeded", "Failed")
_REMEMBERED_PARTS = 64
"""Of what a pod excludes, where other pods are to share the object."""
NO_NEED = view.HostNeed(cpu_millis=0, memory_bytes=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod.

    Attributes:
        version: resource version; 0 where it is no number.
        node: where it is bound.
        share: hundredths it requests; 0: none.
        request: what to place; None where it asks for no share, or in a way that cannot be read.
        invalid: why its request cannot be read.
        earmark: the annotation as it stands.
        placement: a placement that names this pod and its node.
        started: when kubelet took it up, in seconds since the epoch; None: not yet.
        preempts: whether others may be evicted for it.
        unschedulable: kube-scheduler's standing report of a try in vain: time and message.
        ready: whether it counts as healthy for a PodDisruptionBudget.
        errored: whether that report is of an error, at a Binding or a volume: it tells of no node.
        packed: reason and message of the standing condition `cotenant.dev/Packed`.
        told: since when that condition says that it waits, in seconds since the epoch; None: it does not say so.
        since: since when it counts as waiting, in seconds since the epoch.
        tenure: what it says of when it ends.
        volume_claims: names of the PersistentVolumeClaims that its volumes use.
        excludes: which pods it cannot share a node with.
        created: when it was created, in seconds since the epoch; None: unknown.
        scheduled: when it was bound, in seconds since the epoch; None: it is not, or that is unknown.
        images: of its containers, while it asks for a share and is not bound: their author may change them.
    """

    uid: PodUID
    namespace: Namespace
    name: str
    version: int
    node: NodeName | None
    phase: str
    deleting: bool
    share: int
    request: view.Request | None
    invalid: str | None
    gates: tuple[str, ...]
    host: view.HostNeed
    priority: int
    since: float
    earmark: str | None
    placement: booked.AnyPlaced | None
    started: float | None
    preempts: bool
    unschedulable: str | None
    packed: tuple[str, str] | None
    labels: Mapping[str, str]
    tenure: tenures.Tenure = tenures.UNKNOWN
    volume_claims: tuple[str, ...] = ()
    excludes: conflicts.Exclusion = conflicts.NOTHING
    errored: bool = False
    ready: bool = False
    created: float | None = None
    scheduled: float | None = None
    told: float | None = None
    images: tuple[str, ...] = ()

    @property
    def waiting(self) -> tuple[object, ...]:
        """What of a pod that waits the queue depends on; not its resource version, nor what it was told."""
        return (self.gates, self.unschedulable, self.invalid, self.priority, self.since)

    @property
    def reported(self) -> bool:
        """Whether a report stands that the next try in vain with an earmark may equal: then it would write none."""
        return self.unschedulable is not None and not podreports.is_early(self.unschedulable)

    @property
    def asks(self) -> bool:
        """Whether it asks for a GPU share."""
        return self.share > 0

    @property
    def finished(self) -> bool:
        """Whether kubelet reported that all of its containers ended for good."""
        return self.phase in TERMINAL_PHASES

    @property
    def pending(self) -> bool:
        """Whether it asks for a share, is alive and not yet bound."""
        return self.asks and self.node is None and not self.deleting and not self.finished

    @property
    def gated(self) -> bool:
        """Whether our gate is its last one."""
        return self.gates == (names.PACKING_GATE,)

    def excluded_by(self, other: "Pod") -> bool:
        """Return whether the pod cannot be on a node on which another is."""
        return conflicts.conflict(
            conflicts.Member(self.namespace, self.labels, self.excludes),
            conflicts.Member(other.namespace, other.labels, other.excludes),
        )

    @property
    def gang(self) -> pod.GangKey | None:
        """Return the gang that the pod belongs to, if any."""
        return None if self.request is None else self.request.demand.gang_key(priority=self.priority)

    @property
    def likeness(self) -> tenures.Likeness | None:
        """What pods have in common that run about as long; None: nothing is known to be like it."""
        predicted = None if self.request is None else self.request.demand.predicted
        if predicted is not None:
            return tenures.Likeness(self.namespace, predicted.graph)
        owner = self.tenure.owner
        return tenures.Likeness(self.namespace, (owner, self.share)) if owner else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A Kubernetes Node: what it offers, and who may go there."""

    name: NodeName
    share: int
    cpu_millis: int
    memory_bytes: int
    pods: int
    schedulable: bool
    labels: Mapping[str, str]
    taints: tuple[constraints.Taint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GPU:
    """What a node agent tells of one GPU.

    Attributes:
        foreign_processes: how many processes use it that are no tenant's.
        tenants: pods that hold it or a part of it.
        evict: those of them that its agent wants evicted, and why.
    """

    uuid: GPUUID
    index: int
    model: GPUModel
    memory_mib: int
    mode: gpunode.Mode
    health: gpunode.Health
    foreign_processes: int
    tenants: tuple[PodUID, ...]
    evict: tuple[tuple[PodUID, gpunode.EvictionReason], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUNode:
    """What a node agent tells; `version` as a pod's."""

    name: NodeName
    version: int
    ready: bool
    excluded: frozenset[GPUUID]
    gpus: tuple[GPU, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease, with times in seconds since the epoch.

    Attributes:
        renewed: last renewal; 0: never.
        acquired: when the present holder took it; 0: unknown.
    """

    name: str
    holder: str
    renewed: float
    acquired: float
    duration_seconds: float


Known = Callable[[PodUID], Pod | None]


def unknown(_uid: PodUID) -> None:
    """Nothing was read of any pod before."""


def pod_record(raw: Object, known: Known = unknown) -> Pod:
    """Return the record of a pod as the API server gives it; `known` finds what was read of it before."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    notes: Object = metadata.get("annotations") or {}
    uid, node = PodUID(metadata["uid"]), sharing.text(spec.get("nodeName") or None)
    asks = pod.asks_for_share(raw)
    host = podrequests.host_need(spec, status)
    labels = sharing.labels(metadata.get("labels"))
    request, invalid, share = None, None, 0
    if asks:
        share = amounts.counted_share(spec)
        try:
            request = _request(raw, host, labels)
        except errors.InvalidInputError as error:
            invalid = str(error)
    placed = _placed(notes, uid, node, known(uid)) if asks else None
    reports = {item.get("type"): item for item in status.get("conditions") or ()}
    told = podreports.waiting_since(reports.get(names.PACKED)) if asks and node is None else None
    if told is not None and request is not None:
        request = replace(request, since=told)
    return Pod(
        uid=uid,
        namespace=sharing.text(Namespace(metadata.get("namespace", ""))),
        name=metadata.get("name", ""),
        version=_version(metadata),
        node=node,
        phase=sharing.text(status.get("phase", "")),
        deleting="deletionTimestamp" in metadata,
        share=share,
        request=request,
        invalid=invalid,
        gates=sharing.one(pod.gates(raw)) if asks else (),
        host=host,
        priority=podrequests.priority(spec),
        since=told or (tenures.seconds(metadata.get("creationTimestamp")) if request is None else request.since),
        earmark=notes.get(names.EARMARK) if asks else None,
        placement=placed if _covers(placed, share) else None,
        labels=labels,
        started=tenures.seconds(status.get("startTime")) or None,
        preempts=spec.get("preemptionPolicy") != "Never",
        unschedulable=podreports.unschedulable(reports.get("PodScheduled")),
        errored=podreports.errored(reports.get("PodScheduled")),
        ready=reports.get("Ready", {}).get("status") == "True",
        packed=podreports.packed(reports.get(names.PACKED)),
        tenure=tenures.of_pod(raw) if asks else tenures.of_other(raw),
        volume_claims=storage.claims_of(metadata, spec) if asks and node is None else (),
        excludes=_excludes(metadata.get("namespace", ""), spec),
        created=tenures.seconds(metadata.get("creationTimestamp")) or None,
        scheduled=podreports.scheduled(reports.get("PodScheduled")),
        told=told,
        images=_images(spec) if asks and node is None else (),
    )


def lifted(known: Pod, metadata: Object) -> Pod:
    """Return a pod after its gate was lifted or its earmark renewed, from what was known and its metadata after that.

    Whatever else changed comes with the event of that change, which has the same version.
    """
    notes: Object = metadata.get("annotations") or {}
    return replace(
        known,
        version=_version(metadata),
        gates=tuple(gate for gate in known.gates if gate != names.PACKING_GATE),
        earmark=notes.get(names.EARMARK),
        deleting="deletionTimestamp" in metadata,
        tenure=replace(known.tenure, leaves=tenures.seconds(metadata.get("deletionTimestamp")) or None),
    )


def unreported(known: Pod, metadata: Object) -> Pod:
    """Return a pod after kube-scheduler's report was taken back, from what was known and its metadata after that."""
    return replace(known, version=_version(metadata), unschedulable=None, errored=False)


def constrained(request: view.Request, where: constraints.Constraints) -> view.Request:
    """Return a request with other constraints; requests that differ in them are taken and refused differently."""
    return replace(request, constraints=where, fit_key=sharing.one((request.alike, where)))


def node_record(raw: Object) -> Node:
    """Return the record of a Node."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    offered: Object = status.get("allocatable") or {}
    ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in status.get("conditions") or ())
    return Node(
        name=NodeName(raw["metadata"]["name"]),
        share=amounts.whole(offered.get(names.GPU_SHARE, 0)),
        cpu_millis=amounts.millis(offered.get("cpu", 0)),
        memory_bytes=amounts.whole(offered.get("memory", 0)),
        pods=amounts.whole(offered.get("pods", 0)),
        schedulable=ready and not spec.get("unschedulable"),
        labels=raw["metadata"].get("labels") or {},
        taints=constraints.taints(spec),
    )


def gpunode_record(raw: Object) -> GPUNode:
    """Return the record of a GPUNode.

    Raises:
        InvalidInputError: a field is wrong. Whoever asked takes the node for closed.
    """
    name = NodeName(raw["metadata"]["name"])
    spec = documents.validated(gpunode.Spec, raw.get("spec") or {}, source=f"GPUNode[{name}].spec")
    status = documents.validated(gpunode.Status, raw.get("status") or {}, source=f"GPUNode[{name}].status")
    return GPUNode(
        name=name,
        version=_version(raw["metadata"]),
        ready=conditions.is_true(status.conditions, gpunode.READY),
        excluded=frozenset(spec.excluded_gpus),
        gpus=tuple(_gpu(gpu) for gpu in sorted(status.gpus, key=lambda gpu: (gpu.index, gpu.uuid))),
    )


def closed_gpunode(raw: Object) -> GPUNode:
    """Return the record of a GPUNode that cannot be read: not ready, without GPUs."""
    metadata = raw["metadata"]
    return GPUNode(
        name=NodeName(metadata["name"]), version=_version(metadata), ready=False, excluded=frozenset(), gpus=()
    )


def lease_record(raw: Object) -> Lease:
    """Return the record of a Lease."""
    spec = raw.get("spec") or {}
    return Lease(
        name=raw["metadata"]["name"],
        holder=spec.get("holderIdentity") or "",
        renewed=tenures.seconds(spec.get("renewTime")),
        acquired=tenures.seconds(spec.get("acquireTime")),
        duration_seconds=spec.get("leaseDurationSeconds") or 0,
    )


def _request(raw: Object, host: view.HostNeed, labels: Mapping[str, str]) -> view.Request:
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    notes: Object = metadata.get("annotations") or {}
    if spec.get("schedulerName") != names.SCHEDULER_NAME:
        remedy = f'must be "{names.SCHEDULER_NAME}" where {names.GPU_SHARE} is requested'
        raise errors.InvalidInputError("spec.schedulerName", spec.get("schedulerName"), remedy)
    demand = pod.demand(raw)
    where = sharing.one(constraints.of_pod(spec))
    created = tenures.seconds(metadata.get("creationTimestamp"))
    queued = created if demand.queued_since is None else min(created, demand.queued_since.timestamp())
    alike = (
        demand.namespace,
        demand.share,
        demand.memory_mib,
        demand.gpu_models,
        notes.get(names.PREDICTION),
        demand.suspect,
        host,
    )
    return view.Request(
        demand=demand,
        labels=labels,
        priority=podrequests.priority(spec),
        since=queued,
        host=host,
        constraints=where,
        alike=sharing.one(alike),
        fit_key=sharing.one((sharing.one(alike), where)),
    )


def _images(spec: Object) -> tuple[str, ...]:
    """Return the same object for all pods of a template."""
    kinds = ("initContainers", "containers")
    return sharing.one(
        tuple(sharing.digest(str(one.get("image", ""))) for kind in kinds for one in spec.get(kind) or ())
    )


def _excludes(namespace: str, spec: Object) -> conflicts.Exclusion:
    """Return what a pod excludes, one object for all pods of a template; that of most is `NOTHING`."""
    found = conflicts.exclusion(namespace, spec)
    return found if found is conflicts.NOTHING or found.parts > _REMEMBERED_PARTS else sharing.one(found)


def _version(metadata: Object) -> int:
    text = metadata.get("resourceVersion") or ""
    return int(text) if text.isascii() and text.isdigit() else 0


def _placed(notes: Object, uid: PodUID, node: NodeName | None, known: Pod | None) -> booked.Placed | None:
    text = notes.get(names.PLACEMENT)
    if text is None or node is None:
        return None
    return booked.read(text, uid=uid, node=node, known=None if known is None else known.placement)


def _covers(placed: booked.Placed | None, share: int) -> bool:
    return placed is not None and sum([gpu.share for gpu in placed.gpus]) >= share


def _gpu(gpu: gpunode.GPU) -> GPU:
    return GPU(
        uuid=gpu.uuid,
        index=gpu.index,
        model=sharing.text(gpu.model),
        memory_mib=gpu.memory_mib,
        mode=gpu.mode,
        health=gpu.health,
        foreign_processes=gpu.foreign_processes,
        tenants=tuple(tenant.pod_uid for tenant in gpu.tenants),
        evict=tuple((tenant.pod_uid, tenant.evict) for tenant in gpu.tenants if tenant.evict is not None),
    )
