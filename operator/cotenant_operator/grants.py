"""What a DLJob's pods are to ask for: share, prediction and models, by spec, prediction and policy. Pure.

A grant is fixed when a workload is made; it is read back from the workload, never kept anywhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api import booking, dljob, errors, names, packingpolicy
from cotenant_api.names import GPUModel
from cotenant_api.prediction import Prediction
from cotenant_operator import outcomes, reasons

NVIDIA_GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """What every pod of a workload asks for.

    Attributes:
        share: hundredths of a GPU; n x 100 for n whole ones.
        prediction: the annotation's text; None for whole GPUs.
        gpu_models: the annotation's text; None: any model.
        observed_only: mode Observe: `nvidia.com/gpu` of the default scheduler instead of a share.
    """

    share: int
    prediction: str | None
    gpu_models: str | None
    observed_only: bool = False

    @property
    def gpus(self) -> int:
        """How many GPUs a pod gets at most a part of."""
        return max(self.share // names.HUNDREDTHS, 1)

    def document(self) -> Prediction | None:
        """The prediction; None where there is none that can be read: somebody changed the workload."""
        if self.prediction is None:
            return None
        try:
            return Prediction.from_json(self.prediction, source=names.PREDICTION)
        except errors.InvalidInputError:
            return None


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


def read(template: Mapping[str, Any]) -> Grant | None:
    """The grant that a pod template carries; None where it carries none."""
    notes = (template.get("metadata") or {}).get("annotations") or {}
    for container in template["spec"].get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        if names.GPU_SHARE in limits:
            return Grant(
                share=int(limits[names.GPU_SHARE]),
                prediction=notes.get(names.PREDICTION),
                gpu_models=notes.get(names.GPU_MODELS),
            )
        if NVIDIA_GPU in limits:
            share = names.HUNDREDTHS * int(limits[NVIDIA_GPU])
            models = notes.get(names.GPU_MODELS)
            return Grant(share=share, prediction=None, gpu_models=models, observed_only=True)
    return None
