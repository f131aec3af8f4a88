"""What `cotenant submit --dry-run` shows, of a graph and as much of a cluster as there is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant_api import errors, packingpolicy
from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel
from cotenant_cli.reading import cluster
from cotenant_cli.submitting import costs, objects, predicting


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What only a trial asks.

    Attributes:
        models: GPU models, where no cluster is to be asked for them.
        steps: of the whole run.
        prices: of an hour of a GPU.
    """

    models: Sequence[str] = ()
    steps: int | None = None
    prices: costs.Prices


def estimate(graph: Graph, job: Mapping[str, Any], lists: cluster.Lists | None, trial: Trial) -> costs.Estimate:
    """Return what the job will need on each GPU model that it may use.

    Args:
        graph: one step of it.
        job: the DLJob.
        lists: of the cluster; None: there is none to ask.
        trial: what else is asked.

    Raises:
        InvalidInputError: nothing is known of its GPU models, or nothing finite follows from the graph.
    """
    spec, seen = objects.spec_of(job), _seen(lists)
    fleet = costs.fleet_of(seen.nodes)
    models = _asked(trial, spec.gpu_models) or spec.gpu_models or tuple(fleet)
    found = predicting.predict(graph, spec, models=models)
    question = costs.Question(
        spec=spec,
        policy=packingpolicy.Spec() if seen.policy is None else seen.policy.spec,
        fleet=fleet,
        steps=trial.steps,
        prices=trial.prices,
    )
    return costs.Estimate(
        name=job["metadata"]["name"],
        namespace=job["metadata"]["namespace"],
        graph=found.document.graph,
        predictor=found.document.model,
        rows=costs.rows(found.document, question),
        notes=(*seen.notes, *costs.notes(question, predicted=found.document.by_gpu, unknown=found.unknown)),
    )


def _asked(trial: Trial, allowed: Sequence[GPUModel]) -> tuple[GPUModel, ...]:
    """Return the GPU models of the command line, all of which the job may use.

    Raises:
        InvalidInputError: it may not use one of them.
    """
    for model in trial.models if allowed else ():
        if model not in allowed:
            remedy = f"is not among the job's gpuModels ({', '.join(allowed)}): name one of these, or leave it out"
            raise errors.InvalidInputError("--gpu-model", model, remedy)
    return tuple(map(GPUModel, trial.models))


def _seen(lists: cluster.Lists | None) -> cluster.Seen:
    """GPUs and policy; a cluster that does not answer is told of, and guessed around."""
    defaults = "what is booked is by the defaults of a PackingPolicy"
    if lists is None:
        return cluster.Seen(pods=(), nodes=(), notes=(f"no cluster was asked: {defaults}",))
    try:
        return cluster.of_fleet(lists)
    except errors.TemporaryError as error:
        return cluster.Seen(pods=(), nodes=(), notes=(f"{error}: {defaults}",))
