"""What a job is booked for: hundredths of a GPU, and memory. Pure arithmetic.

`cost(job, model) = max(share, clamp(ceil(100 x upper[model] / maxUtilizationPercent), 1, 100))`

where `upper` is the prediction's upper bound of the policy's metric on that GPU model, and `share` the
pod's request: the smallest such clamp over the models that the job may use. Three placements, which stand for ways to
share GPUs without predictions, count otherwise:

| placement | cost |
|---|---|
| `Exclusive` | 100, of every pod |
| `Reactive` | 100 where there is a prediction that was not measured; else as above |
| `MemoryOnly` | the pod's request, which is its memory's part for what is predicted: memory alone decides |

The dominant resource counts: on a GPU a job is booked for `max(cost, memory_part)` hundredths, so that who takes nearly
all memory of a GPU is not counted as a hundredth of it by a quota.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cotenant_api import packingpolicy, prediction
from cotenant_api.names import HUNDREDTHS, GPUModel

PackingOf = Callable[[GPUModel], packingpolicy.Packing]

UPPER_POINTS: Final = 10
"""Added to the measured mean for the upper bound. A minute holds 12 samples; where they spread by 20 points, the
standard error of their mean is 6 points, and 95 % of such means lie less than 10 below the true one."""
MEMORY_PERCENT: Final = 120
"""Of the measured peak, for the upper bound: allocators grow after the first minute (evaluation, longer inputs). What
needs more runs out of memory, and is placed again with more."""


@functools.lru_cache(maxsize=4096)
def hundredths(upper_percent: float, *, max_utilization_percent: int) -> int:
    """Return the share, 1 to 100, that an upper bound in percent of a GPU stands for."""
    # Rounded first: 100 x 0.55 / 100 must not become 56 through binary fractions.
    return min(max(math.ceil(round(100 * upper_percent / max_utilization_percent, 6)), 1), HUNDREDTHS)


def upper_percent(predicted: prediction.GPUPrediction, metric: packingpolicy.Metric) -> float:
    """Return the upper bound of the policy's metric."""
    match metric:
        case packingpolicy.Metric.GPU_UTILIZATION:
            return predicted.utilization.upper
        case packingpolicy.Metric.SM_ACTIVITY:
            return predicted.sm_activity.upper


def cost(
    *,
    share: int,
    predicted: prediction.GPUPrediction | None,
    packing: packingpolicy.Packing,
    source: prediction.Source | None = None,
) -> int:
    """Hundredths of one GPU that a pod is booked for; never less than its request.

    Args:
        share: the pod's request.
        predicted: for the GPU's model.
        packing: in force for the GPU's model.
        source: what the prediction rests on.
    """
    if packing.placement is packingpolicy.Placement.EXCLUSIVE:
        return HUNDREDTHS
    if predicted is None or packing.placement is packingpolicy.Placement.MEMORY_ONLY:
        return share
    if packing.placement is packingpolicy.Placement.REACTIVE and source is not prediction.Source.PROFILE:
        return HUNDREDTHS
    upper = upper_percent(predicted, packing.metric)
    return max(share, hundredths(upper, max_utilization_percent=packing.max_utilization_percent))


def requested_share(
    by_gpu: Mapping[GPUModel, prediction.GPUPrediction],
    packing_of: PackingOf,
    *,
    source: prediction.Source | None = None,
    gpu_mib: Mapping[GPUModel, int] | None = None,
    annotated_mib: int | None = None,
) -> int:
    """Return the pod's request: the least that it is booked for on any GPU model that the job may use.

    Args:
        by_gpu: its prediction.
        packing_of: in force for each model.
        source: see `cost`.
        gpu_mib: memory of the GPU models as far as it is known, in MiB; on others, memory is not looked at.
        annotated_mib: what is booked instead of what is predicted.

    Raises:
        ValueError: there is no model.
    """

    def least(model: GPUModel, row: prediction.GPUPrediction) -> int:
        packing, mib = packing_of(model), (gpu_mib or {}).get(model)
        by_time = cost(share=1, predicted=row, packing=packing, source=source)
        if mib is None:
            return by_time
        wanted = row.memory_mib.upper if annotated_mib is None else annotated_mib
        return max(by_time, memory_part(wanted, bookable_mib(mib, packing)))

    return min(least(model, row) for model, row in by_gpu.items())


def memory_part(memory_mib: int, bookable: int) -> int:
    """Hundredths of a GPU that its memory stands for, 1 to 100; `bookable`: what may be booked of it, in MiB."""
    return min(max(-(-HUNDREDTHS * memory_mib // max(bookable, 1)), 1), HUNDREDTHS)


def bookable_mib(memory_mib: int, packing: packingpolicy.Packing) -> int:
    """Memory of a GPU that may be booked, in MiB."""
    return memory_mib * (100 - packing.memory_headroom_percent) // 100


def booked_mib(
    *, share: int, annotated_mib: int | None, predicted: prediction.GPUPrediction | None, bookable: int
) -> int:
    """Memory that a pod is booked for on one shared GPU, in MiB: annotated, else predicted, else by its share."""
    if annotated_mib is not None:
        return annotated_mib
    if predicted is not None:
        return predicted.memory_mib.upper
    return bookable * share // HUNDREDTHS


def alone_on(
    by_gpu: Mapping[GPUModel, prediction.GPUPrediction], gpu_mib: Mapping[GPUModel, int], packing_of: PackingOf
) -> frozenset[GPUModel]:
    """GPU models on which a job fits alone, where no shared GPU can book its upper bound of memory; else none.

    A margin keeps jobs from disturbing each other: it is no reason to keep one waiting that disturbs nobody.

    Args:
        by_gpu: its prediction.
        gpu_mib: memory of the GPU models that it may use, in MiB.
        packing_of: in force for each.
    """
    known = {model: mib for model, mib in gpu_mib.items() if model in by_gpu}
    if any(by_gpu[model].memory_mib.upper <= bookable_mib(mib, packing_of(model)) for model, mib in known.items()):
        return frozenset()
    return frozenset(model for model, mib in known.items() if by_gpu[model].memory_mib.q50 <= mib)


def measured_utilization(percent: float) -> prediction.PercentRange:
    """Return what is booked of a utilization that was measured: `UPPER_POINTS` above it, at most 100."""
    return prediction.PercentRange(q50=percent, upper=min(percent + UPPER_POINTS, 100.0))


def measured_memory(peak_mib: int) -> prediction.MemoryRange:
    """Return what is booked of a memory peak that was measured: `MEMORY_PERCENT` of it."""
    return prediction.MemoryRange(q50=peak_mib, upper=-(-peak_mib * MEMORY_PERCENT // 100))


def excess(*, shares: Sequence[int], memory_mib: Sequence[int], gpu_memory_mib: int) -> str | None:
    """Return what is booked on a GPU beyond what it has, in words; None: nothing.

    It never happens by any rule: something outside of them did it, such as a Binding by another program.

    Args:
        shares: hundredths that each tenant books.
        memory_mib: memory that each tenant books, in MiB; not looked at where one tenant has the GPU to itself.
        gpu_memory_mib: the GPU's whole memory, in MiB.
    """
    if sum(shares) > HUNDREDTHS:
        return f"{sum(shares)} hundredths of 100 are booked"
    if len(memory_mib) > 1 and sum(memory_mib) > gpu_memory_mib:
        return f"{sum(memory_mib)} MiB of {gpu_memory_mib} are booked"
    return None
