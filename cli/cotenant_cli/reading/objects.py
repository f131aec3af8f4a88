"""Raw Kubernetes objects as what the views ask of them. Pure; what cannot be read says which field is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api import conditions, dljob, documents, errors, gpunode, names, packingpolicy, quantity
from cotenant_api import pod as pods
from cotenant_api.names import PodUID
from cotenant_api.placement import Placement

Object = Mapping[str, Any]

INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB: Final = "batch.kubernetes.io/job-name"
_SCHEDULED: Final = "PodScheduled"
_FINISHED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A reason, and its message for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that asks for a share of a GPU, or has one.

    Attributes:
        dljob, job: that it is of, by their names.
        priority: `spec.priority`.
        owner: kind of the controller that makes it again, where there is one.
        index: its number in a Job.
        since: RFC 3339, since when it counts as waiting.
        gates: its scheduling gates.
        packed: what the extender says of it.
        scheduled: what kube-scheduler says of it, while it is not bound.
        held_up: why a container of it does not run yet.
        unread: what of it cannot be read.
    """

    uid: PodUID
    namespace: str
    name: str
    dljob: str | None
    job: str | None
    priority: int
    owner: str | None
    index: int | None
    phase: str
    node: str | None
    since: str
    gates: tuple[str, ...]
    packed: Said | None
    scheduled: Said | None
    held_up: Said | None
    demand: pods.Demand | None
    placement: Placement | None
    unread: str | None

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.phase in _FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A GPUNode; `unread`: what of it cannot be read, and then there is nothing else."""

    name: str
    status: gpunode.Status
    unread: str | None

    @property
    def ready(self) -> conditions.Condition | None:
        """What its agent says of itself."""
        return conditions.find(self.status.conditions, gpunode.READY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A Node: whether it takes pods, and the shares that it offers, in hundredths of a GPU."""

    name: str
    cordoned: bool
    shares: int
    taints: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DLJob:
    """A DLJob; of its template nothing.

    Attributes:
        created: RFC 3339.
        generation: that its status should describe.
    """

    namespace: str
    name: str
    created: str
    generation: int
    status: dljob.Status


def pod_of(raw: Object) -> Pod | None:
    """Return a pod; None: it has to do with no share."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    notes, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if not pods.asks_for_share(raw) and names.PLACEMENT not in notes:
        return None
    demand, unread = _demand(raw)
    placement, unplaced = _placement(notes)
    index = str(labels.get(INDEX, ""))
    node = spec.get("nodeName") or None
    said = {item.get("type"): item for item in status.get("conditions") or ()}
    return Pod(
        uid=PodUID(metadata["uid"]),
        namespace=metadata["namespace"],
        name=metadata["name"],
        dljob=labels.get(names.DLJOB_LABEL) or None,
        job=labels.get(JOB) or None,
        priority=spec.get("priority") or 0,
        owner=next((str(one["kind"]) for one in metadata.get("ownerReferences") or () if one.get("controller")), None),
        index=int(index) if index.isascii() and index.isdigit() else None,
        phase=str(status.get("phase") or "Pending"),
        node=node,
        since=_since(metadata, said.get(names.PACKED) or {}),
        gates=pods.gates(raw),
        packed=_said(said.get(names.PACKED)),
        scheduled=None if node else _said(said.get(_SCHEDULED)),
        held_up=_held_up(status),
        demand=demand,
        placement=placement,
        unread=unread or unplaced,
    )


def _since(metadata: Object, packed: Object) -> str:
    """Return since when a pod waits, as the extender says it, and before it does as the pod says it."""
    notes = metadata.get("annotations") or {}
    told = packed.get("lastTransitionTime") if packed.get("status") == "False" else None
    return str(told or notes.get(names.QUEUED_SINCE) or metadata.get("creationTimestamp") or "")


def node_of(raw: Object) -> Node:
    """Return a GPUNode, whatever stands in it."""
    name = raw["metadata"]["name"]
    try:
        status = documents.validated(gpunode.Status, raw.get("status") or {}, source=f"GPUNode[{name}].status")
    except errors.InvalidInputError as error:
        return Node(name=name, status=gpunode.Status(), unread=str(error))
    return Node(name=name, status=status, unread=None)


def host_of(raw: Object) -> Host:
    """Return a Node.

    Raises:
        InvalidInputError: what it offers is no number.
    """
    name, spec = raw["metadata"]["name"], raw.get("spec") or {}
    offered = ((raw.get("status") or {}).get("allocatable") or {}).get(names.GPU_SHARE, 0)
    return Host(
        name=name,
        cordoned=bool(spec.get("unschedulable")),
        shares=quantity.integer(offered, field=f"Node[{name}].status.allocatable[{names.GPU_SHARE}]"),
        taints=tuple(_taint(one) for one in spec.get("taints") or ()),
    )


def dljob_of(raw: Object) -> DLJob:
    """Return a DLJob.

    Raises:
        InvalidInputError: its status cannot be read.
    """
    metadata = raw["metadata"]
    return DLJob(
        namespace=metadata["namespace"],
        name=metadata["name"],
        created=str(metadata.get("creationTimestamp") or ""),
        generation=metadata.get("generation") or 0,
        status=documents.validated(dljob.Status, raw.get("status") or {}, source="DLJob.status"),
    )


def policy_of(raw: Object) -> packingpolicy.PackingPolicy:
    """Return the PackingPolicy.

    Raises:
        InvalidInputError: a field is wrong.
    """
    return packingpolicy.PackingPolicy.from_object(dict(raw))


def _taint(one: Object) -> str:
    value = f"={one['value']}" if one.get("value") else ""
    return f"{one.get('key')}{value}:{one.get('effect')}"


def _demand(raw: Object) -> tuple[pods.Demand | None, str | None]:
    if not pods.asks_for_share(raw):
        return None, None
    try:
        return pods.demand(raw), None
    except errors.InvalidInputError as error:
        return None, str(error)


def _placement(notes: Object) -> tuple[Placement | None, str | None]:
    text = notes.get(names.PLACEMENT)
    if text is None:
        return None, None
    try:
        return Placement.from_json(text, source=f"metadata.annotations[{names.PLACEMENT}]"), None
    except errors.InvalidInputError as error:
        return None, str(error)


def _said(condition: Object | None) -> Said | None:
    if condition is None:
        return None
    return Said(reason=str(condition.get("reason") or ""), message=str(condition.get("message") or ""))


def _held_up(status: Object) -> Said | None:
    """Return the first container that waits, and for what."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            waiting = (container.get("state") or {}).get("waiting")
            if waiting:
                message = f"{container.get('name')}: {waiting.get('message') or 'no message'}"
                return Said(reason=str(waiting.get("reason") or ""), message=message)
    return None
