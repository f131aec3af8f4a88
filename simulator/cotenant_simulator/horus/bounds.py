"""What no schedule of given jobs can beat, however it packs: the longest job, and work over capacity. Pure arithmetic.

    makespan >= max_j s_j        makespan >= sum_j need_j x s_j / n_GPUs

s_j: how long job j runs alone. need_j, by how GPUs are shared: 1 where each job has one to itself; its utilization
where jobs take turns; under MPS the larger of the two sums, over SM activity and over memory bandwidth. By the model
of co-location nothing else limits, and nothing is lost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cotenant_api import prediction
from cotenant_simulator.engine import jobs
from cotenant_simulator.horus import published


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Least makespans in seconds, and what they follow from.

    Attributes:
        gpus: how many there are.
        longest_seconds: the longest job, alone.
        slot_seconds: with a GPU for each job.
        turns_seconds: with GPUs that are shared in turns.
        mps_seconds: with GPUs that are shared by MPS.
        busy_seconds: for how long the jobs' kernels run, if each job runs alone: GPU-seconds.
    """

    gpus: int
    longest_seconds: float
    slot_seconds: float
    turns_seconds: float
    mps_seconds: float
    busy_seconds: float


def of(given: Sequence[jobs.Job], *, gpus: int) -> Bounds:
    """Of jobs that are all there from the beginning, by what they really need."""
    longest = max(_seconds(job) for job in given)
    busy = _work(given, lambda real: real.utilization.q50)
    sms, dram = (
        _work(given, lambda real: real.sm_activity.q50),
        _work(given, lambda real: real.dram_activity.q50),
    )
    whole = sum(_seconds(job) for job in given)
    return Bounds(
        gpus=gpus,
        longest_seconds=longest,
        slot_seconds=max(longest, whole / gpus),
        turns_seconds=max(longest, busy / gpus),
        mps_seconds=max(longest, sms / gpus, dram / gpus),
        busy_seconds=busy,
    )


def _work(given: Sequence[jobs.Job], percent: Callable[[prediction.GPUPrediction], float]) -> float:
    return sum(percent(job.kind.real[published.GPU_MODEL]) / 100 * _seconds(job) for job in given)


def _seconds(job: jobs.Job) -> float:
    return job.seconds[published.GPU_MODEL]
