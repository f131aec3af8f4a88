"""What a DLJob's pods are to ask for: share, prediction and models, by spec, prediction and policy. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from cotenant_api import booking, dljob, names, packingpolicy, quantity
from cotenant_api.names import GPUModel
from cotenant_api.prediction import Prediction, Source
from cotenant_operator import reasons
from cotenant_operator.state import outcomes
from cotenant_operator.state.grants import Grant


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """Nothing may be made, and why."""

    reason: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What has been learned about a job's needs since it was predicted.

    Attributes:
        memory_mib: what its former attempts have shown that it needs; of an exclusive one: of its GPU at least.
        learned_mib: the most that jobs of the same graph have used.
        exclusive: it gets whole GPUs, although it need not by its spec.
        gpu_memory_mib: GPU models in the cluster -> memory.
    """

    memory_mib: int | None = None
    learned_mib: int | None = None
    exclusive: bool = False
    gpu_memory_mib: Mapping[GPUModel, int] = field(default_factory=dict)


NOTHING_LEARNED: Final = Needs()

_Of = TypeVar("_Of")


def decide(
    spec: dljob.Spec, policy: packingpolicy.Spec, outcome: outcomes.Outcome, needs: Needs = NOTHING_LEARNED
) -> Grant | Hold:
    """Return what the pods ask for under a policy, or why they have to wait."""
    observed_only = policy.mode is packingpolicy.Mode.OBSERVE
    models = _roomy_models(spec, needs) if needs.exclusive else ",".join(spec.gpu_models) or None
    whole = Grant(
        share=names.HUNDREDTHS * spec.gpus_per_replica,
        prediction=None,
        gpu_models=models,
        observed_only=observed_only,
        gpu_memory=spec.gpu_memory,
    )
    alone = spec.sharing is dljob.Sharing.EXCLUSIVE or spec.gpus_per_replica > 1 or needs.exclusive
    if alone or observed_only:
        return whole
    if isinstance(outcome, outcomes.Missing):
        holds = policy.queue.on_missing_prediction is packingpolicy.OnMissingPrediction.HOLD
        if holds and policy.placement is not packingpolicy.Placement.REACTIVE:
            text = (
                f"held by PackingPolicy queue.onMissingPrediction: Hold until there is a prediction: {outcome.message}"
            )
            return Hold(reason=reasons.PREDICTION_MISSING, message=text)
        return whole
    document = fitting(outcome.prediction, policy)
    if spec.gpu_memory is None:
        roomy = booking.alone_on(document.by_gpu, allowed(spec, needs.gpu_memory_mib), policy.packing)
        if roomy:
            return replace(whole, gpu_models=",".join(sorted(roomy)))
    if len(document.by_gpu) < len(outcome.prediction.by_gpu) or document.source is Source.PROFILE:
        # Of other GPU models nothing is known.
        models = ",".join(document.by_gpu)
    memory = booked_memory(spec, document, needs)
    share = booking.requested_share(
        document.by_gpu,
        policy.packing,
        source=document.source,
        gpu_mib=needs.gpu_memory_mib,
        annotated_mib=None if memory is None else quantity.mebibytes(memory, field="spec.gpuMemory"),
    )
    return Grant(share=share, prediction=document.to_json(), gpu_models=models, gpu_memory=memory)


def booked_memory(spec: dljob.Spec, document: Prediction, needs: Needs) -> str | None:
    """Return the GPU memory to book, as the annotation says it; None: what the prediction says for each GPU model.

    `spec.gpuMemory`, else the largest that is predicted, is the least; what was learned only ever raises it.
    """
    if spec.gpu_memory is not None:
        least = quantity.mebibytes(spec.gpu_memory, field="spec.gpuMemory")
    else:
        least = max(row.memory_mib.upper for row in document.by_gpu.values())
    wanted = max(least, needs.memory_mib or 0, needs.learned_mib or 0)
    return f"{wanted}Mi" if wanted > least else spec.gpu_memory


def _roomy_models(spec: dljob.Spec, needs: Needs) -> str | None:
    """Return the GPU models that the job may use and that have the memory that it needs; the largest where none has."""
    usable = allowed(spec, needs.gpu_memory_mib)
    wanted = min(needs.memory_mib or 0, max(usable.values(), default=0))
    roomy = sorted(model for model, mib in usable.items() if mib >= wanted)
    if len(roomy) == len(usable):
        return ",".join(spec.gpu_models) or None
    return ",".join(roomy)


def allowed(spec: dljob.Spec, by_model: Mapping[GPUModel, _Of]) -> dict[GPUModel, _Of]:
    """Of what is known by GPU model, that of the models that the job may use."""
    return {model: known for model, known in by_model.items() if not spec.gpu_models or model in spec.gpu_models}


def largest_bookable_mib(memory_mib: Mapping[GPUModel, int], policy: packingpolicy.Spec | None) -> int | None:
    """Return the most memory that a shared GPU of these models can book; None where there is none."""
    packing = (policy or packingpolicy.Spec()).packing
    return max((booking.bookable_mib(mib, packing(model)) for model, mib in memory_mib.items()), default=None)


def fitting(document: Prediction, policy: packingpolicy.Spec) -> Prediction:
    """Return the prediction as an annotation can carry it: the GPU models of the largest cost are left out first."""

    def cost(model: GPUModel) -> tuple[int, str]:
        row, packing = document.by_gpu[model], policy.packing(model)
        return booking.cost(share=1, predicted=row, packing=packing, source=document.source), model

    kept = sorted(document.by_gpu, key=cost)
    while len(document.to_json().encode()) > names.MAX_ANNOTATION_BYTES:
        kept = kept[:-1]
        document = document.model_copy(update={"by_gpu": {model: document.by_gpu[model] for model in kept}})
    return document


def renewed(old: Grant | None, new: Grant, *, bound: bool) -> Grant:
    """Return the grant of a workload whose spec changed.

    A policy's change alone gives no new share while a pod is bound.
    """
    if old is None or not bound:
        return new
    same_question = (old.prediction, old.gpu_models, old.observed_only) == (
        new.prediction,
        new.gpu_models,
        new.observed_only,
    )
    shared = old.prediction is not None
    if not (same_question and shared):
        return new
    return replace(old, gpu_memory=new.gpu_memory, suspect_seconds=new.suspect_seconds, graph=new.graph)
