"""Raw Kubernetes objects as parts of a snapshot, by an allow-list: what is not named here is left behind. Pure.

Node labels are those of NVIDIA's GPU feature discovery. Of annotations only Cotenant's own are read, and of those only
numbers, enumerations, times and names of GPU models that are known.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from cotenant_api import conditions, dljob, documents, errors, gpunode, names, pod, quantity
from cotenant_api.names import GPUUID, GPUModel, Namespace, NodeName, PodUID
from cotenant_api.placement import Placement
from cotenant_api.prediction import Prediction
from cotenant_simulator.live import snapshot

Object = Mapping[str, Any]

WHOLE_GPU: Final = "nvidia.com/gpu"
PRODUCT: Final = "nvidia.com/gpu.product"
COUNT: Final = "nvidia.com/gpu.count"
MEMORY: Final = "nvidia.com/gpu.memory"
"""MiB of one GPU."""
SHARED_SUFFIX: Final = "-SHARED"
"""Feature discovery puts it after a product of which each GPU is advertised several times."""
MIG_INFIX: Final = "-MIG-"
"""In a product that is a slice of a GPU."""
INDEX: Final = "batch.kubernetes.io/job-completion-index"
ELSEWHERE: Final = GPUModel("not-in-this-cluster")
"""Stands for a GPU model that a pod names and no node has: any text could stand there."""
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_FINISHED: Final = ("Succeeded", "Failed")
_USABLE_MODES: Final = (gpunode.Mode.SHARED, gpunode.Mode.WHOLE)


def node(raw: Object, agent: Object | None) -> snapshot.Node | None:
    """Return a node, with the GPUs that its agent tells of, else those of its labels; None: it has none.

    Raises:
        InvalidInputError: it has GPUs of no model, or its agent's object cannot be read.
    """
    name, labels = NodeName(raw["metadata"]["name"]), raw["metadata"].get("labels") or {}
    status = raw.get("status") or {}
    up = any(item.get("type") == "Ready" and item.get("status") == "True" for item in status.get("conditions") or ())
    found = () if agent is None else _told(agent)
    gpus = found or _labelled(name, labels, status.get("allocatable") or {})
    if not gpus:
        return None
    ready = up and not (raw.get("spec") or {}).get("unschedulable")
    return snapshot.Node(name=name, ready=ready, served=bool(found), gpus=gpus)


def pod_of(raw: Object, known: Collection[GPUModel]) -> snapshot.Pod | None:
    """Return a pod; None: it asks for no GPU.

    Args:
        raw: as the API server gives it.
        known: GPU models that may be named.

    Raises:
        InvalidInputError: what it says of its GPU cannot be read.
    """
    whole, asks = _whole_gpus(raw), pod.asks_for_share(raw)
    if not whole and not asks:
        return None
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    notes, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    demand, priority = pod.demand(raw) if asks else None, spec.get("priority") or 0
    index = labels.get(INDEX, notes.get(INDEX, ""))
    phase = str(status.get("phase") or "")
    gang = None if demand is None else demand.gang_key(priority=priority)
    return snapshot.Pod(
        uid=PodUID(metadata["uid"]),
        namespace=Namespace(metadata["namespace"]),
        name=metadata["name"],
        dljob=labels.get(names.DLJOB_LABEL) or None,
        index=int(index) if index.isascii() and index.isdigit() else None,
        created=_time(metadata["creationTimestamp"]),
        queued_since=None if demand is None else demand.queued_since,
        started=_time_or_none(status.get("startTime")) if spec.get("nodeName") else None,
        finished=_finished(status) if phase in _FINISHED else None,
        phase=phase,
        node=spec.get("nodeName") or None,
        priority=priority,
        share=0 if demand is None else demand.share,
        whole_gpus=whole,
        gpu_memory_mib=None if demand is None else demand.memory_mib,
        gpu_models=_models(demand, spec, known),
        workload_type=pod.WorkloadType.TRAINING if demand is None else demand.workload_type,
        gang=None
        if gang is None
        else _opaque(documents.canonical([gang.name, gang.size, gang.controller, gang.priority, gang.across])),
        gang_size=None if gang is None else gang.size,
        believed=_believed(notes, known),
        placement=_placement(notes),
    )


def dljob_of(raw: Object, known: Collection[GPUModel]) -> snapshot.DLJob:
    """Return a DLJob; of its template, model and arguments nothing.

    Raises:
        InvalidInputError: a field that is taken cannot be read.
    """
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    status = documents.validated(dljob.Status, raw.get("status") or {}, source="DLJob.status")
    predicted, seen = status.prediction or dljob.PredictionStatus(), status.observed or dljob.Observed()
    on = predicted.gpu_model
    return snapshot.DLJob(
        namespace=Namespace(metadata["namespace"]),
        name=metadata["name"],
        created=_time(metadata["creationTimestamp"]),
        started=_time_or_none(status.start_time),
        completed=_time_or_none(status.completion_time),
        phase=status.phase,
        workload_type=pod.WorkloadType(spec.get("workloadType", pod.WorkloadType.TRAINING)),
        replicas=spec.get("replicas", 1),
        gpus_per_replica=spec.get("gpusPerReplica", 1),
        gpu_models=_named(spec.get("gpuModels") or (), known),
        exclusive=spec.get("sharing") == dljob.Sharing.EXCLUSIVE,
        numbers=snapshot.Numbers(
            gpu_model=None if on is None else _known(on, known),
            utilization_percent=predicted.utilization_percent,
            upper_percent=predicted.upper_percent,
            memory_mib=predicted.memory_mib,
            observed_percent=seen.gpu_utilization_percent,
            observed_memory_mib=seen.memory_peak_mib,
        ),
    )


def models(nodes: Iterable[snapshot.Node]) -> frozenset[GPUModel]:
    """Of all GPUs there are."""
    return frozenset(gpu.model for one in nodes for gpu in one.gpus)


def without_shared(product: str) -> GPUModel:
    """Return the model that a product label stands for."""
    return GPUModel(product.removesuffix(SHARED_SUFFIX))


def _told(agent: Object) -> tuple[snapshot.GPU, ...]:
    source = f"GPUNode[{agent['metadata']['name']}]"
    spec = documents.validated(gpunode.Spec, agent.get("spec") or {}, source=f"{source}.spec")
    status = documents.validated(gpunode.Status, agent.get("status") or {}, source=f"{source}.status")
    ready = conditions.is_true(status.conditions, gpunode.READY)
    return tuple(
        snapshot.GPU(
            uuid=gpu.uuid,
            index=gpu.index,
            model=gpu.model,
            memory_mib=gpu.memory_mib or None,
            usable=ready
            and gpu.health is gpunode.Health.HEALTHY
            and gpu.mode in _USABLE_MODES
            and gpu.uuid not in spec.excluded_gpus,
        )
        for gpu in sorted(status.gpus, key=lambda gpu: (gpu.index, gpu.uuid))
    )


def _labelled(name: NodeName, labels: Mapping[str, str], allocatable: Object) -> tuple[snapshot.GPU, ...]:
    """GPUs of a node without agent. What is advertised several times is there as often as the label says."""
    advertised = quantity.integer(allocatable.get(WHOLE_GPU, 0), field=f"Node[{name}].status.allocatable[{WHOLE_GPU}]")
    count = _number(labels, COUNT, name=name) or advertised
    if not advertised:
        return ()
    product = labels.get(PRODUCT)
    if not product:
        remedy = "the node has GPUs and no model: run NVIDIA's GPU feature discovery, or set the label by hand"
        raise errors.InvalidInputError(f"Node[{name}].metadata.labels[{PRODUCT}]", product, remedy)
    memory = _number(labels, MEMORY, name=name)
    return tuple(
        snapshot.GPU(
            uuid=GPUUID(f"{name}/{index}"),
            index=index,
            model=without_shared(product),
            memory_mib=memory or None,
            usable=MIG_INFIX not in product,
        )
        for index in range(count)
    )


def _number(labels: Mapping[str, str], label: str, *, name: str) -> int:
    text = labels.get(label, "0")
    if not text.isascii() or not text.isdigit():
        raise errors.InvalidInputError(f"Node[{name}].metadata.labels[{label}]", text, "must be a whole number")
    return int(text)


def _whole_gpus(raw: Object) -> int:
    containers: Sequence[Object] = (raw.get("spec") or {}).get("containers") or ()
    field = f"spec.containers[].resources.limits[{WHOLE_GPU}]"
    asked = ((one.get("resources") or {}).get("limits") or {} for one in containers)
    return sum(quantity.integer(limits.get(WHOLE_GPU, 0), field=field) for limits in asked)


def _models(demand: pod.Demand | None, spec: Object, known: Collection[GPUModel]) -> tuple[GPUModel, ...]:
    """Annotated, or by the node selector that NVIDIA's users write."""
    named = _named(() if demand is None else demand.gpu_models, known)
    product = (spec.get("nodeSelector") or {}).get(PRODUCT)
    selected = () if product is None else _named((without_shared(product),), known)
    if named and selected:
        return tuple(model for model in named if model in selected) or (ELSEWHERE,)
    return named or selected


def _named(found: Iterable[str], known: Collection[GPUModel]) -> tuple[GPUModel, ...]:
    return tuple(sorted({_known(GPUModel(model), known) for model in found}))


def _known(model: GPUModel, known: Collection[GPUModel]) -> GPUModel:
    return model if model in known else ELSEWHERE


def _believed(notes: Object, known: Collection[GPUModel]) -> snapshot.Believed | None:
    text = notes.get(names.PREDICTION)
    if text is None:
        return None
    found = Prediction.from_json(text, source=f"metadata.annotations[{names.PREDICTION}]")
    by_gpu = {model: one for model, one in found.by_gpu.items() if model in known}
    if not by_gpu:
        return None
    graph = found.graph if _DIGEST.fullmatch(found.graph) else _opaque(found.graph)
    return snapshot.Believed(graph=graph, source=found.source, by_gpu=by_gpu)


def _placement(notes: Object) -> tuple[snapshot.Booked, ...]:
    text = notes.get(names.PLACEMENT)
    if text is None:
        return ()
    found = Placement.from_json(text, source=f"metadata.annotations[{names.PLACEMENT}]")
    return tuple(snapshot.Booked.model_validate(gpu.model_dump()) for gpu in found.gpus)


def _finished(status: Object) -> datetime | None:
    """When its last container ended."""
    ended = [
        ((one.get("state") or {}).get("terminated") or {}).get("finishedAt")
        for one in status.get("containerStatuses") or ()
    ]
    return max((_time(text) for text in ended if text), default=None)


def _opaque(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise errors.InvalidInputError(
            "time", text, 'must be an RFC 3339 time such as "2026-01-31T12:00:00Z"'
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _time_or_none(text: str | None) -> datetime | None:
    return _time(text) if text else None
