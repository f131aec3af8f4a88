"""What a job of a snapshot needs: what is believed of it, and what it really needs, drawn or observed. Pure.

    real = median x (1 + error),   log(1 + real) normal about log(1 + median), its upper bound at quantile `LEVEL`

The bound is what the predictor learned from its residuals: it is exceeded as often here as it was in training. What has
been observed is taken as it was. One draw stands for all activity of a job, another one for its memory.
"""

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Final, NamedTuple

from cotenant_api import booking, names, packingpolicy, prediction
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_simulator.cluster import cases
from cotenant_simulator.live import snapshot

LEVEL: Final = 0.9
"""What share of held-out jobs the predictor's upper bounds cover (`training.jobs`)."""
ALL_THREADS: Final = 100
_STEP_MILLISECONDS: Final = 100.0
"""Of a job of which no step is known; only ratios between GPU models matter."""
_QUANTILE: Final = NormalDist().inv_cdf(LEVEL)
_MODEL: Final = "snapshot"

ByGPU = Mapping[GPUModel, prediction.GPUPrediction]


class Error(NamedTuple):
    """By how many standard deviations a job is above its median."""

    activity: float
    memory: float


def believed(case: cases.Case, memory: Mapping[GPUModel, int], *, assumed_percent: float | None) -> ByGPU:
    """Return what is known of a job before it is packed, by GPU model; empty: nothing.

    Args:
        case: the job.
        memory: in MiB of each GPU model that it may use.
        assumed_percent: what is assumed where nothing is known; None: nothing.
    """
    if case.believed is not None:
        return {model: one for model, one in case.believed.by_gpu.items() if model in memory}
    if case.used is not None:
        used = case.used
        busy = booking.measured_utilization(used.utilization_percent)
        peak = used.memory_peak_mib
        return {
            model: _row(
                busy,
                booking.measured_memory(_part(used.utilization_percent, memory[model]) if peak is None else peak),
                active=used.sm_activity_percent,
                dram=used.dram_activity_percent,
            )
            for model in memory
            if case.ran_on not in memory or model == case.ran_on
        }
    numbers = case.numbers or snapshot.Numbers()
    model = numbers.gpu_model
    if model is not None and model in memory and numbers.upper_percent is not None:
        middle = float(numbers.utilization_percent or 0)
        busy = prediction.PercentRange(q50=middle, upper=max(middle, float(numbers.upper_percent)))
        peak = numbers.memory_mib or 0
        return {model: _row(busy, _exactly(peak))}
    if assumed_percent is None:
        return {}
    busy = booking.measured_utilization(assumed_percent)
    return {model: _row(busy, _exactly(_part(assumed_percent, mib))) for model, mib in memory.items()}


def packable(found: ByGPU, memory: Mapping[GPUModel, int]) -> ByGPU:
    """Without GPU models that are out of domain, or of which a shared GPU could never book so much memory."""
    usual = packingpolicy.Packing()
    return {
        model: one
        for model, one in found.items()
        if not one.out_of_domain and one.memory_mib.upper <= booking.bookable_mib(memory[model], usual)
    }


def document(found: ByGPU, case: cases.Case, *, key: str) -> prediction.Prediction | None:
    """Return the prediction that it is packed by; None: nothing is known."""
    if not found:
        return None
    source = prediction.Source.PROFILE if case.believed is None else case.believed.source
    if case.memory_mib is not None:
        wanted = case.memory_mib
        found = {
            model: one.model_copy(update={"memory_mib": prediction.MemoryRange(q50=wanted, upper=wanted)})
            for model, one in found.items()
        }
    return prediction.Prediction(graph=GraphDigest(key), source=source, model=_MODEL, by_gpu=dict(found))


def real(found: ByGPU, case: cases.Case, error: Error, *, memory: Mapping[GPUModel, int]) -> ByGPU:
    """Return what it really needs, by GPU model: of every range the median. Nobody needs more memory than a GPU has."""
    seen = _observed(case)
    on = found.get(case.ran_on) if case.ran_on is not None else None
    factor, peak = None, seen.memory_mib
    if seen.percent is not None and on is not None and on.utilization.q50 > 0:
        factor = seen.percent / on.utilization.q50
    drawn = {model: _real(one, error, factor=factor, peak_mib=peak) for model, one in found.items()}
    return {
        model: one.model_copy(update={"memory_mib": _exactly(min(one.memory_mib.q50, memory[model]))})
        for model, one in drawn.items()
    }


def taken(models: Iterable[GPUModel], *, share: int, memory: Mapping[GPUModel, int]) -> ByGPU:
    """Return what a job of which nothing is predicted is taken to need: what it asks for."""
    percent = float(min(share, names.HUNDREDTHS))
    exact = prediction.PercentRange(q50=percent, upper=percent)
    return {model: _row(exact, _exactly(_part(percent / 2, memory[model]))) for model in models}


class _Observed(NamedTuple):
    percent: float | None
    memory_mib: int | None


def _observed(case: cases.Case) -> _Observed:
    if case.used is not None:
        return _Observed(case.used.utilization_percent, case.used.memory_peak_mib)
    if case.numbers is not None:
        return _Observed(case.numbers.observed_percent, case.numbers.observed_memory_mib)
    return _Observed(None, None)


def _real(
    one: prediction.GPUPrediction, error: Error, *, factor: float | None, peak_mib: int | None
) -> prediction.GPUPrediction:
    def percent(found: prediction.PercentRange) -> prediction.PercentRange:
        value = _drawn(found.q50, found.upper, error.activity) if factor is None else found.q50 * factor
        exact = min(100.0, value)
        return prediction.PercentRange(q50=exact, upper=exact)

    memory = one.memory_mib
    mib = peak_mib if peak_mib is not None else math.ceil(_drawn(memory.q50, memory.upper, error.memory))
    return one.model_copy(
        update={
            "utilization": percent(one.utilization),
            "sm_activity": percent(one.sm_activity),
            "dram_activity": percent(one.dram_activity),
            "memory_mib": _exactly(mib),
        }
    )


def _drawn(median: float, upper: float, error: float) -> float:
    if upper <= median:
        return median
    width = (math.log1p(upper) - math.log1p(median)) / _QUANTILE
    return max(math.expm1(math.log1p(median) + width * error), 0.0)


def _row(
    busy: prediction.PercentRange,
    memory: prediction.MemoryRange,
    *,
    active: float | None = None,
    dram: float | None = None,
) -> prediction.GPUPrediction:
    """Take what is not known as the most that it can be: SMs and DRAM as active as the GPU is busy, all threads."""
    return prediction.GPUPrediction(
        utilization=busy,
        sm_activity=busy if active is None else booking.measured_utilization(active),
        dram_activity=busy if dram is None else booking.measured_utilization(dram),
        memory_mib=memory,
        step_milliseconds=_STEP_MILLISECONDS,
        thread_percentage=ALL_THREADS,
        regime=prediction.Regime.COMPUTE,
    )


def _part(percent: float, memory_mib: int) -> int:
    return math.ceil(memory_mib * percent / 100)


def _exactly(mib: int) -> prediction.MemoryRange:
    return prediction.MemoryRange(q50=mib, upper=mib)
