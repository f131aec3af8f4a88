"""What a graph will need on each GPU model, by the model that ships, as the operator predicts it. Imported late."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant_api import dljob, errors, graph, pod, quantity, suggestions
from cotenant_api.names import GPUModel
from cotenant_api.prediction import Prediction
from cotenant_predictor import devices
from cotenant_predictor.jobs import prediction as jobs
from cotenant_predictor.models import store


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A prediction for each known GPU model that was asked for, and the models of which nothing is known."""

    document: Prediction
    unknown: tuple[GPUModel, ...]


def predict(found: graph.Graph, spec: dljob.Spec, *, models: Collection[GPUModel]) -> Predicted:
    """Return what the job will need.

    Args:
        found: one step of it.
        spec: of the DLJob.
        models: GPU models; none: all that are known.

    Raises:
        InvalidInputError: none of the models is known, or nothing finite follows from the graph.
    """
    known = devices.load()
    unknown = tuple(sorted(set(models) - set(known)))
    asked: Sequence[GPUModel] = sorted(set(models) & set(known))
    if models and not asked:
        remedy = f"is not known; {suggestions.advice(unknown[0], known)}"
        raise errors.InvalidInputError("gpuModels", ", ".join(unknown), remedy)
    document = jobs.predict(
        _with_requests(found, spec),
        devices.select(asked),
        cpu_cores=_cpu_cores(spec),
        knowledge=store.load().knowledge(),
    )
    return Predicted(document=document, unknown=unknown)


def _with_requests(found: graph.Graph, spec: dljob.Spec) -> graph.Graph:
    """Return the graph with the load that the spec declares; one in the graph stands."""
    declared = None if spec.slo is None else spec.slo.requests_per_second
    if declared is None or spec.workload_type is not pod.WorkloadType.INFERENCE or found.inference is not None:
        return found
    rate = float(quantity.parse(declared, field="spec.slo.requestsPerSecond"))
    load = graph.Inference(requests_per_second=rate) if rate else None
    return found.model_copy(update={"inference": load})


def _cpu_cores(spec: dljob.Spec) -> float | None:
    """Return the CPU limit of the container that loads the job's input; None: no limit."""
    path = "spec.template.spec"
    containers = _object(spec.template.get("spec"), path).get("containers") or []
    if not isinstance(containers, list):
        raise errors.InvalidInputError(f"{path}.containers", containers, "must be a list")
    for index, one in enumerate(containers):
        place = f"{path}.containers[{index}]"
        if spec.container in (None, _object(one, place).get("name")):
            resources = _object(one.get("resources"), f"{place}.resources")
            limit = _object(resources.get("limits"), f"{place}.resources.limits").get("cpu")
            return None if limit is None else quantity.millis(limit, field="resources.limits.cpu") / 1000 or None
    return None


def _object(value: object, field: str) -> Mapping[str, Any]:
    """Return an object of a pod template, whose parts nothing has looked at; an empty one where there is none."""
    if value is not None and not isinstance(value, dict):
        raise errors.InvalidInputError(field, value, "must be an object")
    return value or {}
