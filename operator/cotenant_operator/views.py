"""What the operator keeps of the objects that it watches: small, immutable, read once. Pure.

A finished DLJob keeps neither its spec nor its status: ten thousand of them must cost next to nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from cotenant_api import conditions, dljob, documents, errors, gpunode, names, packingpolicy, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_operator import grants, labels

Object = Mapping[str, Any]


class Key(NamedTuple):
    """A DLJob's namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Meta:
    """What every object has.

    Attributes:
        version: `resourceVersion` as a number: the API server compares them so since 1.35.
        owner_uid: UID of the controlling owner.
    """

    key: Key
    uid: str
    version: int
    generation: int
    created: datetime
    deleting: bool
    owner_uid: str | None
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class DLJob:
    """A DLJob.

    Attributes:
        spec: None where it is finished or cannot be read.
        problem: why the spec cannot be read.
        status, written: as they stand in the API server; of a finished one only the condition that ended it.
    """

    meta: Meta
    spec: dljob.Spec | None
    problem: str | None
    ttl_seconds: int | None
    status: dljob.Status
    written: Object

    @property
    def finished(self) -> conditions.Condition | None:
        """The condition Complete or Failed that ended it."""
        return finished(self.status)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """An owned batch/v1 Job: one attempt.

    Attributes:
        complete, failed: its terminal condition.
        ending: the Job controller is ending its pods, or will at once.
        spec_digest: of the DLJob's spec that it was made from.
        model_digest: of what of it a prediction rests on.
        grant: what its pods ask for; None where it is complete.
        external: another controller (Kueue) decides when it runs.
    """

    meta: Meta
    attempt: int
    suspended: bool
    deadline_seconds: int | None
    terminating: int
    start_time: datetime | None
    complete: conditions.Condition | None
    failed: conditions.Condition | None
    ending: bool
    spec_digest: str
    model_digest: str
    grant: grants.Grant | None
    external: bool

    @property
    def finished(self) -> bool:
        """Whether the Job controller is done with it: no pod of it runs any more."""
        return (self.complete is not None or self.failed is not None) and self.terminating == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """An owned Deployment."""

    meta: Meta
    replicas: int
    available: int
    rolled_out: bool
    spec_digest: str
    model_digest: str
    grant: grants.Grant | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A pod of a DLJob.

    Attributes:
        dljob_uid: the UID of the DLJob that it was made for, from its label.
        packed: reason and message of the condition `cotenant.dev/Packed`.
        unschedulable: message of `PodScheduled=False`, but not of a gate.
        scheduled_at: when it was bound.
        why: why its container ended, where it failed.
    """

    meta: Meta
    dljob_uid: str
    attempt: int
    index: int | None
    node: NodeName | None
    placement: placement.Placement | None
    phase: str
    ready: bool
    packed: tuple[str, str] | None
    unschedulable: str | None
    scheduled_at: datetime | None
    why: str | None

    @property
    def ended(self) -> bool:
        """Whether none of its containers will run again."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, kw_only=True, slots=True)
class GPUNode:
    """A node's GPUs."""

    name: NodeName
    uid: str
    version: int
    gpus: Mapping[GPUUID, gpunode.GPU]


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The PackingPolicy."""

    uid: str
    version: int
    spec: packingpolicy.Spec


def meta(value: Object) -> Meta:
    """The metadata that is kept."""
    metadata: Object = value["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return Meta(
        key=Key(metadata.get("namespace", ""), metadata["name"]),
        uid=metadata["uid"],
        version=version(value),
        generation=metadata.get("generation", 0),
        created=datetime.fromisoformat(metadata["creationTimestamp"]),
        deleting="deletionTimestamp" in metadata,
        owner_uid=next((owner["uid"] for owner in owners if owner.get("controller")), None),
        labels={key: text for key, text in (metadata.get("labels") or {}).items() if labels.is_kept(key)},
    )


def version(value: Object) -> int:
    """`resourceVersion` as a number."""
    return int(value["metadata"].get("resourceVersion", 0))


def finished(status: dljob.Status) -> conditions.Condition | None:
    """The condition that ended a DLJob."""
    for condition_type in (dljob.COMPLETE, dljob.FAILED):
        found = conditions.find(status.conditions, condition_type)
        if found is not None and found.status is conditions.Status.TRUE:
            return found
    return None


def dl_job(value: Object) -> DLJob:
    """A DLJob; what cannot be read of it is named in `problem`."""
    written: Object = value.get("status") or {}
    status = documents.validated(dljob.Status, written, source="status")
    raw_spec: Object = value.get("spec") or {}
    spec, problem, ended = None, None, finished(status)
    if ended is not None:
        # Nothing is derived from it any more.
        status, written = dljob.Status(conditions=(ended,)), {}
    else:
        try:
            spec = documents.validated(dljob.Spec, raw_spec, source="spec")
        except errors.InvalidInputError as error:
            problem = str(error)
    return DLJob(
        meta=meta(value),
        spec=spec,
        problem=problem,
        ttl_seconds=raw_spec.get("ttlSecondsAfterFinished"),
        status=status,
        written=written,
    )


def job(value: Object) -> Job:
    """A batch/v1 Job that we made."""
    spec, status = value["spec"], value.get("status") or {}
    ends = {item["type"]: item for item in status.get("conditions") or () if item["status"] == "True"}
    complete, failed = _condition(ends.get("Complete")), _condition(ends.get("Failed"))
    return Job(
        meta=meta(value),
        attempt=number(_label(value, names.ATTEMPT_LABEL)),
        suspended=bool(spec.get("suspend")),
        deadline_seconds=spec.get("activeDeadlineSeconds"),
        terminating=status.get("terminating") or 0,
        start_time=_time(status.get("startTime")),
        complete=complete,
        failed=failed,
        ending="FailureTarget" in ends or "SuccessCriteriaMet" in ends or "activeDeadlineSeconds" in spec,
        spec_digest=_annotation(value, labels.SPEC_DIGEST) or "",
        model_digest=_annotation(value, labels.MODEL_DIGEST) or "",
        grant=None if complete is not None else grants.read(spec["template"]),
        external=any(key.startswith(labels.KUEUE) for key in value["metadata"].get("labels") or {}),
    )


def deployment(value: Object) -> Deployment:
    """A Deployment that we made."""
    spec, status = value["spec"], value.get("status") or {}
    replicas = spec.get("replicas", 1)
    caught_up = status.get("observedGeneration", 0) >= value["metadata"].get("generation", 0)
    return Deployment(
        meta=meta(value),
        replicas=replicas,
        available=status.get("availableReplicas") or 0,
        rolled_out=caught_up and (status.get("updatedReplicas") or 0) >= replicas,
        spec_digest=_annotation(value, labels.SPEC_DIGEST) or "",
        model_digest=_annotation(value, labels.MODEL_DIGEST) or "",
        grant=grants.read(spec["template"]),
    )


def pod(value: Object) -> Pod:
    """A pod that was made from one of our templates."""
    spec, status = value["spec"], value.get("status") or {}
    found = {item["type"]: item for item in status.get("conditions") or ()}
    scheduled, packed = found.get("PodScheduled") or {}, found.get(names.PACKED)
    bound = scheduled.get("status") == "True"
    refused = scheduled.get("status") == "False" and scheduled.get("reason") != "SchedulingGated"
    index = _annotation(value, labels.COMPLETION_INDEX)
    return Pod(
        meta=meta(value),
        dljob_uid=_label(value, labels.DLJOB_UID),
        attempt=number(_label(value, names.ATTEMPT_LABEL)),
        index=None if index is None else number(index),
        node=spec.get("nodeName") or None,
        placement=_placement(value),
        phase=status.get("phase", "Pending"),
        ready=(found.get("Ready") or {}).get("status") == "True",
        packed=None if packed is None else (packed.get("reason", ""), packed.get("message", "")),
        unschedulable=scheduled.get("message") if refused else None,
        scheduled_at=_time(scheduled.get("lastTransitionTime")) if bound else None,
        why=_why(status),
    )


def gpu_node(value: Object) -> GPUNode:
    """A GPUNode.

    Raises:
        InvalidInputError: its status cannot be read.
    """
    status = documents.validated(gpunode.Status, value.get("status") or {}, source="status")
    metadata = value["metadata"]
    return GPUNode(
        name=NodeName(metadata["name"]),
        uid=metadata["uid"],
        version=version(value),
        gpus={gpu.uuid: gpu for gpu in status.gpus},
    )


def policy(value: Object) -> Policy:
    """The PackingPolicy.

    Raises:
        InvalidInputError: a field is wrong; nothing of it may be applied.
    """
    spec = packingpolicy.PackingPolicy.from_object(dict(value)).spec
    return Policy(uid=value["metadata"]["uid"], version=version(value), spec=spec)


def pod_uid(seen: Pod) -> PodUID:
    """The pod's UID, as placements and GPUNodes write it."""
    return PodUID(seen.meta.uid)


def number(text: str) -> int:
    """A label's whole number; 0 where it is none."""
    return int(text) if text.isascii() and text.isdigit() else 0


def _label(value: Object, name: str) -> str:
    return str((value["metadata"].get("labels") or {}).get(name, ""))


def _annotation(value: Object, name: str) -> str | None:
    found: str | None = (value["metadata"].get("annotations") or {}).get(name)
    return found


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _condition(item: Object | None) -> conditions.Condition | None:
    if item is None:
        return None
    return conditions.Condition(
        type=item["type"],
        status=conditions.Status(item["status"]),
        reason=item.get("reason") or item["type"],
        message=item.get("message") or "",
        last_transition_time=item.get("lastTransitionTime") or "",
    )


def _placement(value: Object) -> placement.Placement | None:
    text = _annotation(value, names.PLACEMENT)
    if text is None:
        return None
    try:
        return placement.Placement.from_json(text, source=names.PLACEMENT)
    except errors.InvalidInputError:
        # The agent refuses such a pod and names it; here it is a pod that is not placed.
        return None


def _why(status: Object) -> str | None:
    if status.get("phase") != "Failed":
        return None
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return f"container {container.get('name')} ended with {ended.get('reason')}, exit code {ended['exitCode']}"
    return status.get("message") or status.get("reason")
