"""What was measured of a job while it was alone, and the prediction that follows from it. Pure.

A job without a prediction under `queue.onMissingPrediction: Profile` runs on a whole GPU until each replica has been
measured for a minute; its attempt is then ended, and the next one is packed by what was measured. Under `placement:
Reactive` every job that shares goes this way: what is predicted, or was learned from other jobs, counts for nothing.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cotenant_api import booking, dljob, gpunode, packingpolicy, pod, prediction
from cotenant_api.names import GPUModel, GraphDigest, PodUID
from cotenant_operator import reasons
from cotenant_operator.life import granting
from cotenant_operator.state import outcomes, views
from cotenant_operator.state.measured import Alone, Measured
from cotenant_operator.state.observed import GPU, Observed
from cotenant_operator.workloads import scaling

SECONDS: Final = gpunode.MEASURED_SECONDS
NOMINAL_STEP_MILLISECONDS: Final = 100.0
"""Stands where a step's time is asked for: no agent sees steps."""
MODEL: Final = "measured"
"""How a prediction of this kind names its model."""


def seen(observed: Observed, pods: Iterable[views.Pod]) -> Measured | None:
    """Return what was measured of these pods alone for long enough.

    Of several on one GPU model, the largest of each value.
    """
    found = [row for each in pods if each.placement is not None for row in _rows(observed, each)]
    by_gpu: dict[GPUModel, Alone] = {}
    for model, row in found:
        by_gpu[model] = row if model not in by_gpu else _larger(by_gpu[model], row)
    return Measured(by_gpu=by_gpu) if by_gpu else None


def wanted(spec: dljob.Spec, policy: packingpolicy.Spec) -> bool:
    """Return whether the job is to be measured where there is no prediction for it."""
    profiles = is_reactive(policy) or policy.queue.on_missing_prediction is packingpolicy.OnMissingPrediction.PROFILE
    packs = policy.mode is packingpolicy.Mode.PACK and spec.sharing is dljob.Sharing.SHARED
    return profiles and packs and spec.gpus_per_replica == 1


def is_reactive(policy: packingpolicy.Spec) -> bool:
    """Return whether only what was measured of a job itself counts."""
    return policy.placement is packingpolicy.Placement.REACTIVE


def counted(observed: Observed) -> Observed:
    """Without a prediction that counts for nothing."""
    spec, policy, made = observed.job.spec, observed.policy, observed.outcome
    if spec is None or policy is None or not isinstance(made, outcomes.Predicted):
        return observed
    if made.prediction.source is prediction.Source.PROFILE or not (is_reactive(policy) and wanted(spec, policy)):
        return observed
    message = (
        "PackingPolicy placement: Reactive packs by what was measured, and not by predictions: set another placement"
    )
    ignored = outcomes.Missing(reason=reasons.PREDICTION_IGNORED, message=message, graph=outcomes.graph_of(made))
    return replace(observed, outcome=ignored)


def begins(spec: dljob.Spec, policy: packingpolicy.Spec, outcome: outcomes.Outcome | None) -> bool:
    """Return whether a job that gets a whole GPU gets it in order to be measured."""
    return wanted(spec, policy) and isinstance(outcome, outcomes.Missing)


def complete(observed: Observed, spec: dljob.Spec, pods: Iterable[views.Pod]) -> Measured | None:
    """Return what was measured, once every replica has been; None before."""
    living = [each for each in pods if not each.ended and not each.meta.deleting]
    if len(living) < scaling.replicas(observed, spec) or not all(
        each.placement is not None and _rows(observed, each) for each in living
    ):
        return None
    return seen(observed, living)


def document(measured: Measured, graph: GraphDigest | None, *, uid: str) -> prediction.Prediction:
    """Return the prediction of a job that was only measured.

    Args:
        measured: by GPU model.
        graph: of the job, where it is known; else the document names a digest that no graph has.
        uid: of the DLJob.
    """
    return prediction.Prediction(
        graph=graph or GraphDigest("sha256:" + hashlib.sha256(f"no graph: DLJob {uid}".encode()).hexdigest()),
        source=prediction.Source.PROFILE,
        model=MODEL,
        by_gpu={model: _profile(row) for model, row in measured.by_gpu.items()},
    )


def corrected(predicted: prediction.Prediction, measured: Measured) -> prediction.Prediction:
    """Return a prediction with the measured utilization, on the GPU models where it was measured.

    All else as predicted.
    """
    rows = {
        model: row.model_copy(update={"utilization": _utilization(measured.by_gpu[model])})
        if model in measured.by_gpu
        else row
        for model, row in predicted.by_gpu.items()
    }
    if rows == predicted.by_gpu:
        return predicted
    return predicted.model_copy(update={"by_gpu": rows, "model": f"{predicted.model}+{MODEL}"})


def words(measured: Measured) -> str:
    """Return what was measured, for people."""
    return "; ".join(
        f"{row.utilization_percent} % of {model} and {row.memory_peak_mib} MiB in {row.seconds} s alone"
        for model, row in sorted(measured.by_gpu.items())
    )


def outcome(observed: Observed, spec: dljob.Spec, measured: Measured | None) -> outcomes.Outcome | None:
    """Return the prediction with what was measured in it, as the policy has it; without a measurement as it is."""
    made, policy = observed.outcome, observed.policy
    if measured is None or policy is None or made is None:
        return made
    if isinstance(made, outcomes.Predicted):
        if made.prediction.source is prediction.Source.PROFILE:
            return made
        hybrid = policy.correction is packingpolicy.Correction.HYBRID
        return outcomes.Predicted(prediction=corrected(made.prediction, measured)) if hybrid else made
    allowed = granting.allowed(spec, measured.by_gpu)
    if not allowed or not begins(spec, policy, made):
        return made
    found = document(Measured(by_gpu=allowed), made.graph, uid=observed.job.meta.uid)
    return outcomes.Predicted(prediction=found)


def of_deployment(observed: Observed, spec: dljob.Spec) -> Measured | None:
    """Return what an inference job's pods were measured to do."""
    current = observed.deployment
    if spec.workload_type is not pod.WorkloadType.INFERENCE or current is None:
        return None
    return seen(observed, observed.pods)


def _profile(row: Alone) -> prediction.GPUPrediction:
    """One GPU model, from one measurement.

    - utilization, memory: as `booking` bounds what was measured.
    - smActivity, dramActivity: not measured; neither can exceed the utilization, so both have its values as bounds.
    - threadPercentage: 100, nothing is known of how the job does with fewer SMs.
    - stepMilliseconds, regime: not known; a nominal time, and Compute.
    """
    utilization = _utilization(row)
    return prediction.GPUPrediction(
        utilization=utilization,
        sm_activity=utilization,
        dram_activity=utilization,
        memory_mib=booking.measured_memory(row.memory_peak_mib),
        step_milliseconds=NOMINAL_STEP_MILLISECONDS,
        thread_percentage=100,
        regime=prediction.Regime.COMPUTE,
    )


def _utilization(row: Alone) -> prediction.PercentRange:
    return booking.measured_utilization(float(row.utilization_percent))


def _rows(observed: Observed, measured: views.Pod) -> list[tuple[GPUModel, Alone]]:
    """Return what the agents tell of one pod, on the GPUs that it is placed on."""
    uid = views.pod_uid(measured)
    booked = () if measured.placement is None else measured.placement.gpus
    known = (observed.gpus.get(gpu.uuid) for gpu in booked)
    present = [gpu for gpu in known if gpu is not None]
    rows = ((gpu.seen.model, _row(gpu, uid)) for gpu in present if gpu.seen is not None)
    return [(model, row) for model, row in rows if row is not None and row.seconds >= SECONDS]


def _row(gpu: GPU, uid: PodUID) -> Alone | None:
    for entry in gpu.told_of((uid,)):
        if entry.alone_seconds is not None and entry.alone_utilization_percent is not None:
            return Alone(
                seconds=entry.alone_seconds,
                utilization_percent=entry.alone_utilization_percent,
                memory_peak_mib=entry.memory_peak_mib,
            )
    return None


def _larger(one: Alone, other: Alone) -> Alone:
    return Alone(
        seconds=min(one.seconds, other.seconds),
        utilization_percent=max(one.utilization_percent, other.utilization_percent),
        memory_peak_mib=max(one.memory_peak_mib, other.memory_peak_mib),
    )
