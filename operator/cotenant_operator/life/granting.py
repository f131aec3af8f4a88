"""What a DLJob's pods are to ask for: share, prediction and models, by spec, prediction and policy. Pure."""

from dataclasses import dataclass

from cotenant_api import booking, dljob, names, packingpolicy
from cotenant_api.names import GPUModel
from cotenant_api.prediction import Prediction
from cotenant_operator import reasons
from cotenant_operator.state import outcomes
from cotenant_operator.state.grants import Grant


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """Nothing may be made, and why."""

    reason: str
    message: str


def decide(spec: dljob.Spec, policy: packingpolicy.Spec, outcome: outcomes.Outcome) -> Grant | Hold:
    """What the pods ask for under a policy, or why they have to wait."""
    observed_only = policy.mode is packingpolicy.Mode.OBSERVE
    models = ",".join(spec.gpu_models) or None
    whole = Grant(
        share=names.HUNDREDTHS * spec.gpus_per_replica,
        prediction=None,
        gpu_models=models,
        observed_only=observed_only,
    )
    if spec.sharing is dljob.Sharing.EXCLUSIVE or spec.gpus_per_replica > 1 or observed_only:
        return whole
    if isinstance(outcome, outcomes.Missing):
        if policy.queue.on_missing_prediction is packingpolicy.OnMissingPrediction.HOLD:
            text = (
                f"held by PackingPolicy queue.onMissingPrediction: Hold until there is a prediction: {outcome.message}"
            )
            return Hold(reason=reasons.PREDICTION_MISSING, message=text)
        return whole
    document = fitting(outcome.prediction, policy)
    if len(document.by_gpu) < len(outcome.prediction.by_gpu):
        models = ",".join(document.by_gpu)
    share = booking.requested_share(document.by_gpu, policy.packing)
    return Grant(share=share, prediction=document.to_json(), gpu_models=models)


def fitting(document: Prediction, policy: packingpolicy.Spec) -> Prediction:
    """The prediction as an annotation can carry it: the GPU models of the largest cost are left out first."""

    def cost(model: GPUModel) -> tuple[int, str]:
        return booking.cost(share=1, predicted=document.by_gpu[model], packing=policy.packing(model)), model

    kept = sorted(document.by_gpu, key=cost)
    while len(document.to_json().encode()) > names.MAX_ANNOTATION_BYTES:
        kept = kept[:-1]
        document = document.model_copy(update={"by_gpu": {model: document.by_gpu[model] for model in kept}})
    return document


def renewed(old: Grant | None, new: Grant, *, bound: bool) -> Grant:
    """The grant of a workload whose spec changed: a policy's change alone gives no new share while a pod is bound."""
    if old is None or not bound:
        return new
    same_question = (old.prediction, old.gpu_models, old.observed_only) == (
        new.prediction,
        new.gpu_models,
        new.observed_only,
    )
    shared = old.prediction is not None
    return old if same_question and shared else new
