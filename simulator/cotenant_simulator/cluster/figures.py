"""What a replay came to. Pure."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant_simulator.engine import history


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one run; waits are of all jobs, slowdowns of those that ended. Percent and seconds.

    Attributes:
        jobs: that some GPU takes.
        used_gpus: GPUs with a job, mean over time up to the later of the snapshot and the last start.
        busy_percent: utilization of GPUs with a job, over the same time.
        slowdown_worst: of 0 none.
        failed: given up for want of memory.
        makespan_seconds: from the first arrival to the last end.
    """

    jobs: int
    used_gpus: float
    busy_percent: float
    wait_mean_seconds: float
    wait_p90_seconds: float
    waited: int
    slowdown_median_percent: float
    slowdown_p95_percent: float
    slowdown_worst_percent: float
    out_of_memory: int
    failed: int
    makespan_seconds: float


def of(ran: history.History, alone: Mapping[int, float], *, until: float) -> Figures:
    """Return the figures of a run.

    Args:
        ran: the run.
        alone: seconds that each job runs alone on the GPU model that it had, by its place.
        until: seconds from its beginning to the snapshot.
    """
    waits = sorted(wait(life) for life in ran.lives if life.started is not None)
    slow = sorted(slowdowns(ran, alone))
    last = max([until, *(life.started for life in ran.lives if life.started is not None)])
    used, busy, seconds = _integrals(ran.moments, last)
    return Figures(
        jobs=len(ran.lives),
        used_gpus=used / seconds if seconds else 0.0,
        busy_percent=100 * busy / used if used else 0.0,
        wait_mean_seconds=statistics.fmean(waits) if waits else 0.0,
        wait_p90_seconds=at(waits, 0.9),
        waited=sum(1 for seconds in waits if seconds > 0),
        slowdown_median_percent=at(slow, 0.5),
        slowdown_p95_percent=at(slow, 0.95),
        slowdown_worst_percent=at(slow, 1.0),
        out_of_memory=sum(life.out_of_memory for life in ran.lives),
        failed=sum(life.failed for life in ran.lives),
        makespan_seconds=ran.makespan_seconds,
    )


def wait(life: history.Life) -> float:
    """From submission to the first start; a start that never came counts from now on as none."""
    return 0.0 if life.started is None else life.started - life.arrived


def slowdowns(ran: history.History, alone: Mapping[int, float]) -> list[float]:
    """Return how much longer than alone those that ended held GPUs, in percent; the GPU model makes no difference."""
    return [
        max(0.0, 100 * (life.ran / alone[place] - 1))
        for place, life in enumerate(ran.lives)
        if life.ended is not None and alone.get(place, 0.0) > 0
    ]


def at(ordered: Sequence[float], part: float) -> float:
    """Return the value of rank ceil(part x n), 0 of nothing."""
    if not ordered:
        return 0.0
    return ordered[max(math.ceil(round(part * len(ordered), 6)), 1) - 1]


def _integrals(moments: Sequence[history.Moment], until: float) -> tuple[float, float, float]:
    """GPU seconds with a job, GPU seconds busy, and seconds."""
    used = busy = 0.0
    for moment, following in itertools.zip_longest(moments, moments[1:]):
        end = until if following is None else min(following.seconds, until)
        length = max(0.0, end - moment.seconds)
        used += moment.occupied * length
        busy += moment.utilization * length
    begin = moments[0].seconds if moments else 0.0
    return used, busy, max(0.0, until - begin)
