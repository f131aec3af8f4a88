"""What a graph will need on each GPU model, by the model that ships, as the operator predicts it. Imported late."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

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
    containers = (spec.template.get("spec") or {}).get("containers") or ()
    mine = [one for one in containers if spec.container in (None, one.get("name"))]
    limit = (((mine[0].get("resources") or {}).get("limits") or {}).get("cpu")) if mine else None
    return None if limit is None else quantity.millis(limit, field="resources.limits.cpu") / 1000 or None
