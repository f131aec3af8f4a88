"""The prediction and the measurements as a DLJob's status shows them. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from cotenant_api import booking, dljob, packingpolicy, prediction
from cotenant_api.names import GPUUID, GPUModel, PodUID
from cotenant_operator.state import grants, outcomes, views
from cotenant_operator.state.observed import GPU, Observed

_REGIMES: Final = {
    prediction.Regime.COMPUTE: "compute bound",
    prediction.Regime.MEMORY: "bound by the GPU's memory bandwidth",
    prediction.Regime.LAUNCH: "bound by launching kernels",
    prediction.Regime.HOST: "bound by what feeds the GPU",
}


def document(observed: Observed, grant: grants.Grant | None) -> prediction.Prediction | None:
    """Return the prediction in force: the one that the workload carries, else the one just made."""
    if grant is not None and grant.prediction is not None:
        return grant.document()
    outcome = observed.outcome
    return outcome.prediction if isinstance(outcome, outcomes.Predicted) else None


def predicted(
    known: prediction.Prediction | None, pods: Sequence[views.Pod], observed: Observed
) -> dljob.PredictionStatus | None:
    """For the GPU model placed on, else the one of the smallest share; as before where nothing is known."""
    if known is None or not known.by_gpu:
        return observed.job.status.prediction
    model = _model(known, pods, observed)
    row = known.by_gpu[model]
    return dljob.PredictionStatus(
        gpu_model=model,
        utilization_percent=round(row.utilization.q50),
        upper_percent=math.ceil(row.utilization.upper),
        memory_mib=row.memory_mib.upper,
        source=known.source,
        model=known.model,
        reason=explained(model, row, source=known.source),
    )


def explained(model: GPUModel, row: prediction.GPUPrediction, *, source: prediction.Source) -> str:
    """Why, in words: "compute bound: 41 % of NVIDIA-H200, at most 55 %"."""
    why = "measured alone" if source is prediction.Source.PROFILE else _REGIMES[row.regime]
    text = f"{why}: {row.utilization.q50:.0f} % of {model}, at most {math.ceil(row.utilization.upper)} %"
    return f"{text}; outside of what the model knows well" if row.out_of_domain else text


def measured(pods: Sequence[views.Pod], observed: Observed) -> dljob.Observed | None:
    """Return the largest memory that a replica used, how long one was alone on its GPU, and the GPU's utilization then.

    The mean over that time, where the agent tells it; else what it was when last seen.
    """
    before = observed.job.status.observed or dljob.Observed()
    own = {views.pod_uid(pod) for pod in pods}
    peak, utilization = before.memory_peak_mib or 0, before.gpu_utilization_percent
    for gpu in observed.gpus.values():
        if gpu.seen is None:
            continue
        peak = max([peak, *(entry.memory_peak_mib for entry in gpu.told_of(own))])
        tenants = {tenant.pod_uid for tenant in gpu.seen.tenants}
        alone = bool(tenants) and tenants <= own and not gpu.seen.foreign_processes
        if alone and gpu.seen.utilization_percent is not None:
            utilization = gpu.seen.utilization_percent
    seconds, mean = _alone(own, observed)
    if not peak and utilization is None and seconds is None:
        return observed.job.status.observed
    if seconds is None or seconds < (before.alone_seconds or 0):
        seconds, mean = before.alone_seconds, before.gpu_utilization_percent if before.alone_seconds else None
    update = {
        "memory_peak_mib": peak or None,
        "gpu_utilization_percent": utilization if mean is None else mean,
        "alone_seconds": seconds,
    }
    return before.model_copy(update=update)


def _alone(own: Collection[PodUID], observed: Observed) -> tuple[int | None, int | None]:
    """Return the longest that one of these pods was alone on a GPU, and its mean utilization in that time."""
    entries = (entry for gpu in observed.gpus.values() for entry in gpu.told_of(own))
    found = ((entry.alone_seconds, entry.alone_utilization_percent) for entry in entries)
    return max(found, key=lambda alone: alone[0] or 0, default=(None, None))


def _model(known: prediction.Prediction, pods: Sequence[views.Pod], observed: Observed) -> GPUModel:
    placed = _placed_models(pods, observed.gpus)
    usable = [model for model in placed if model in known.by_gpu]
    if usable:
        return usable[0]
    policy = observed.policy or packingpolicy.Spec()

    def cost(model: GPUModel) -> tuple[int, float, str]:
        row = known.by_gpu[model]
        share = booking.cost(share=1, predicted=row, packing=policy.packing(model), source=known.source)
        return share, row.utilization.upper, model

    return min(known.by_gpu, key=cost)


def _placed_models(pods: Sequence[views.Pod], gpus: Mapping[GPUUID, GPU]) -> list[GPUModel]:
    booked = (gpu.uuid for pod in pods if pod.placement is not None for gpu in pod.placement.gpus)
    seen = (gpus[uuid].seen for uuid in booked if uuid in gpus)
    return [gpu.model for gpu in seen if gpu is not None]
