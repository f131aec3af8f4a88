"""What a pod says of the GPU share that it asks for, and what the extender says back.

Any author may write these annotations; the operator writes them for a DLJob's pods.
"""

import enum
import functools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from cotenant_api import choices, documents, errors, names, prediction, quantity, rootless
from cotenant_api.names import GPUModel, Namespace, PodUID

Object = Mapping[str, Any]
WorkloadType = choices.WorkloadType


class PackedReason(enum.StrEnum):
    """Reason of the condition `cotenant.dev/Packed`: the words used everywhere."""

    PLACED = "Placed"
    INSUFFICIENT_SHARE = "InsufficientShare"
    INSUFFICIENT_MEMORY = "InsufficientMemory"
    TENANT_LIMIT = "TenantLimit"
    TENANCY_CONFLICT = "TenancyConflict"
    GPU_MODEL_MISMATCH = "GPUModelMismatch"
    UNHEALTHY_GPU = "UnhealthyGPU"
    FOREIGN_USE = "ForeignUse"
    WAITING_FOR_GANG = "WaitingForGang"
    WAITING_FOR_TURN = "WaitingForTurn"
    INSUFFICIENT_HOST_RESOURCES = "InsufficientHostResources"
    WAITING_FOR_SCALE_UP = "WaitingForScaleUp"
    NEVER_FITS = "NeverFits"
    """No GPU that it may use is large enough, however empty; or no node has as many."""
    INVALID_REQUEST = "InvalidRequest"
    """What the pod says of its GPU share cannot be read; it is never placed as it stands."""


class Gang(documents.Document):
    """A gang document, version 1: pods of equal `GangKey` start together.

    Attributes:
        across_controllers: pods count whichever controller made them, if all of them say so.
    """

    name: Annotated[str, Field(min_length=1, max_length=253)]
    size: Annotated[int, Field(ge=1, le=1024)]
    across_controllers: bool = False

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object; `acrossControllers` is absent where it is false, as older writers have it."""
        found = super().to_object()
        return found if self.across_controllers else {key: found[key] for key in found if key != "acrossControllers"}


class GangKey(NamedTuple):
    """What makes pods one gang: as many of them as the size, the oldest first.

    Nobody joins the gang of another's controller by writing its name: admission lets nobody but controllers write a
    controller into a pod of a gang. Pods without a controller, and those that say `acrossControllers`, are told apart
    by nothing else: within a namespace, all that say the same name and size are one gang, whoever made them.

    Attributes:
        controller: API version, kind, name and UID of the controller that made the pods; empty: none, or the gang
            spans several.
        priority: `spec.priority` of each pod, so that no pod has the place, or the protection, of a mate's priority.
        across: whether the pods say that the gang spans controllers.
    """

    namespace: Namespace
    name: str
    size: int
    controller: str
    priority: int
    across: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one pod asks for.

    Attributes:
        controller: API version, kind, name and UID of the controller that made it; empty: none.
        share: hundredths of a GPU, 1 to 100, or n x 100 for n whole GPUs of one node.
        memory_mib: GPU memory as annotated, in MiB.
        gpu_models: the models that it may use; empty: any.
        queued_since: when its job first asked, if that was earlier than the pod's creation.
        suspect_seconds: until it has run for so long, it shares no GPU with another suspect; 0: it is none.
        may_be_root: why one of its containers may run as root, and what to add; empty: none may.
    """

    uid: PodUID
    namespace: Namespace
    name: str
    container: str
    share: int
    predicted: prediction.Prediction | None
    memory_mib: int | None
    gpu_models: frozenset[GPUModel]
    workload_type: WorkloadType
    processes_per_gpu: int
    gang: Gang | None
    queued_since: datetime | None
    minimum_run_seconds: int
    suspect_seconds: int = 0
    controller: str = ""
    may_be_root: str = ""

    def gang_key(self, *, priority: int) -> GangKey | None:
        """Return the gang that a pod of this priority belongs to, if any."""
        if self.gang is None:
            return None
        gang = self.gang
        controller = "" if gang.across_controllers else self.controller
        return GangKey(self.namespace, gang.name, gang.size, controller, priority, gang.across_controllers)

    @property
    def gpus(self) -> int:
        """How many GPUs: 1, or n whole ones."""
        return max(self.share // names.HUNDREDTHS, 1)

    @property
    def suspect(self) -> str:
        """Who may have caused a fault: its controller, or itself where it has none; empty: it is no suspect."""
        return (self.controller or str(self.uid)) if self.suspect_seconds else ""

    @property
    def whole(self) -> bool:
        """Whether it asks for nothing but whole GPUs."""
        return self.share >= names.HUNDREDTHS


def asks_for_share(pod: Object) -> bool:
    """Return whether any ordinary container asks for `cotenant.dev/gpu-share`."""
    return any(_share_of(container) is not None for container in _containers(pod))


def requested_share(pod: Object) -> tuple[str, int]:
    """Name of the one container that asks, and its request in hundredths.

    Raises:
        InvalidInputError: no container or several ask, or the request is none that can be served.
    """
    asking = [(str(container.get("name", "")), _share_of(container)) for container in _containers(pod)]
    found = [(name, value) for name, value in asking if value is not None]
    if len(found) != 1:
        remedy = f"exactly one container must ask for {names.GPU_SHARE}"
        raise errors.InvalidInputError("spec.containers", [name for name, _ in found], remedy)
    name, value = found[0]
    share = quantity.integer(value, field=f"spec.containers[{name}].resources.limits[{names.GPU_SHARE}]")
    if share < 1 or (share > names.HUNDREDTHS and share % names.HUNDREDTHS):
        remedy = "must be 1 to 100 hundredths of one GPU, or n x 100 for n whole GPUs"
        raise errors.InvalidInputError(f"spec.containers[{name}].resources.limits[{names.GPU_SHARE}]", share, remedy)
    return name, share


def demand(pod: Object) -> Demand:
    """Return what a pod asks for, from its containers and annotations.

    Raises:
        InvalidInputError: a request or annotation cannot be read; it names which.
    """
    metadata: Object = pod.get("metadata") or {}
    notes: Object = metadata.get("annotations") or {}
    container, share = requested_share(pod)
    memory = notes.get(names.GPU_MEMORY)
    return Demand(
        uid=PodUID(metadata.get("uid", "")),
        namespace=Namespace(metadata.get("namespace", "")),
        name=metadata.get("name", ""),
        container=container,
        share=share,
        predicted=_prediction(notes),
        memory_mib=None if memory is None else quantity.mebibytes(memory, field=_path(names.GPU_MEMORY)),
        gpu_models=_models(notes.get(names.GPU_MODELS, "")),
        workload_type=_choice(notes),
        processes_per_gpu=_count(notes, names.PROCESSES_PER_GPU, default=1, least=1),
        gang=_document(Gang, notes, names.GANG),
        queued_since=_time(notes),
        minimum_run_seconds=_count(notes, names.MINIMUM_RUN_SECONDS, default=0, least=0),
        suspect_seconds=_count(notes, names.SUSPECT_SECONDS, default=0, least=0),
        controller=_controller(metadata),
        # Interned: all pods of a template say the same.
        may_be_root=sys.intern(rootless.fault(pod.get("spec") or {}) or ""),
    )


def gates(pod: Object) -> tuple[str, ...]:
    """Names of the pod's scheduling gates."""
    return tuple(gate["name"] for gate in (pod.get("spec") or {}).get("schedulingGates") or ())


def _controller(metadata: Object) -> str:
    """All that a reference says of the controller: admission has judged its kind and name, never its UID alone."""
    owner: Object = next((owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")), {})
    # Interned: all pods of a Job have the same.
    return sys.intern("/".join(str(owner[field]) for field in ("apiVersion", "kind", "name", "uid") if field in owner))


def _containers(pod: Object) -> list[Object]:
    return (pod.get("spec") or {}).get("containers") or []


def _share_of(container: Object) -> str | int | None:
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        value: str | int | None = (resources.get(kind) or {}).get(names.GPU_SHARE)
        if value is not None:
            return value
    return None


def _path(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"


def _document(model: type[documents.D], notes: Object, annotation: str) -> documents.D | None:
    text = notes.get(annotation)
    return None if text is None else _annotated(model, text, annotation)


def _annotated(model: type[documents.D], text: str, annotation: str) -> documents.D:
    if len(text.encode()) > names.MAX_ANNOTATION_BYTES:
        remedy = f"must be at most {names.MAX_ANNOTATION_BYTES} bytes"
        raise errors.InvalidInputError(_path(annotation), text[:64], remedy)
    return model.from_json(text, source=_path(annotation))


def _prediction(notes: Object) -> prediction.Prediction | None:
    text = notes.get(names.PREDICTION)
    return None if text is None else _read_prediction(text)


@functools.lru_cache(maxsize=1024)
def _read_prediction(text: str) -> prediction.Prediction:
    """Pods of one job say the same: they share one value, which is read once."""
    return _annotated(prediction.Prediction, text, names.PREDICTION)


@functools.lru_cache(maxsize=256)
def _models(text: str) -> frozenset[GPUModel]:
    return frozenset(GPUModel(model.strip()) for model in text.split(",") if model.strip())


def _choice(notes: Object) -> WorkloadType:
    text = notes.get(names.WORKLOAD_TYPE, WorkloadType.TRAINING)
    try:
        return WorkloadType(text)
    except ValueError as error:
        remedy = f"must be one of {', '.join(WorkloadType)}"
        raise errors.InvalidInputError(_path(names.WORKLOAD_TYPE), text, remedy) from error


def _count(notes: Object, annotation: str, *, default: int, least: int) -> int:
    text = notes.get(annotation)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
        raise errors.InvalidInputError(_path(annotation), text, f"must be a whole number of at least {least}")
    return int(text)


def _time(notes: Object) -> datetime | None:
    text = notes.get(names.QUEUED_SINCE)
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        remedy = 'must be an RFC 3339 time such as "2026-01-31T12:00:00Z"'
        raise errors.InvalidInputError(_path(names.QUEUED_SINCE), text, remedy) from error
    if time.tzinfo is None:
        raise errors.InvalidInputError(_path(names.QUEUED_SINCE), text, 'must name its time zone, such as "Z"')
    return time
