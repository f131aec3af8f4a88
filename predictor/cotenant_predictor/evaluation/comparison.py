"""Whether a model that would be learned from measurements is better than the one in use. Writes nothing.

Of each target three things are scored, with y what was measured on a GPU that has c of it (100 %, or its memory):

    median        its error, as `scores.main_metric`
    booking       b = min(the upper bound, c); mean of 100 / c x max(LEVEL x (y - b), (1 - LEVEL) x (b - y))
    outOfDomain   the share of measured rows that are said to be: such a job is not packed

The first two are judged on whole networks that neither has seen: of each fold the candidate learns from the other
groups, and groups of which the model in use was taught a line are left out; the second where neither says out of
domain. It is the quantile loss (Koenker and Bassett 1978): it grows by what is booked for nothing, and nine times as
fast by what is used beyond what was booked. The third is of the candidate as it would be used, learned from all lines.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from cotenant_api import errors
from cotenant_predictor.datasets.measurements import Measurements
from cotenant_predictor.evaluation import jobs, scores, splits
from cotenant_predictor.evaluation.jobs import Bench
from cotenant_predictor.evaluation.scores import Scored
from cotenant_predictor.evaluation.splits import Array, Fold
from cotenant_predictor.jobs.guarded import Guarded
from cotenant_predictor.models.store import Model

TARGETS: Final = ("utilization", "memoryPeakMiB")
BETTER: Final = 0.98
"""A score that is lower by less than 2 % is the same; it must not be higher by more either."""
SAME_ROW: Final = 1e-3
"""A row that is so near to one that was learned from was learned from: files hold 24 bits of a value."""
LEVEL: Final = 0.9
"""The share of jobs that a bound is meant to hold for, as of `training.jobs.JobRegressor`."""
BOOKING: Final = "booking"
OUT_OF_DOMAIN: Final = "outOfDomain"

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """One score of one target on the same rows, lower is better; `metric`: of medians, or one of the above."""

    target: str
    metric: str
    rows: int
    groups: int
    active: float
    candidate: float


def compare(measurements: Measurements, active: Model, *, progress: Progress = lambda _: None) -> list[Comparison]:
    """Every target that can be compared.

    Args:
        measurements: what the candidate learns from.
        active: the model in use.
        progress: told what is being done.

    Raises:
        InvalidInputError: there is nothing to compare: too few lines, or one group only.
    """
    alone = measurements.alone()
    if not len(alone):
        raise errors.InvalidInputError("DATA", "", "holds no line of a job alone: nothing can be compared")
    bench = jobs.bench_of(alone, knowledge=active.kernel_knowledge(), progress=progress)
    targets = jobs.measured_targets(alone, TARGETS)
    return [each for target in targets for each in _compared(bench, target, active)]


def is_better(found: list[Comparison]) -> bool:
    """Return whether the candidate is better at something and worse at nothing."""
    better = any(each.candidate < BETTER * each.active for each in found)
    return better and not any(each.active < BETTER * each.candidate for each in found)


def _compared(bench: Bench, target: str, active: Model) -> list[Comparison]:
    learned = active.jobs.get(target)
    candidate, former = _held_out(bench, target, learned)
    if not len(candidate.measured):
        return []
    metric = scores.main_metric(target)
    score = scores.point(target)[metric]
    found = [_of(metric, candidate, former, lambda each: score(each.measured, each.predicted.median))]
    inside = ~(_outside(candidate) | _outside(former))
    if inside.any():
        found.append(_of(BOOKING, candidate.where(inside), former.where(inside), _booking_loss))
    return [*found, _of_domain(bench, target, learned)]


def _held_out(bench: Bench, target: str, learned: Guarded | None) -> tuple[Scored, Scored]:
    """Return what candidate and model in use say of networks that neither has seen."""
    folds = jobs.folds_of(bench.measurements, splits.LEAVE_GROUP_OUT, target)
    mine = [(fold, jobs.learners_of(bench, target)[jobs.COTENANT](bench, target, fold)) for fold in folds]
    theirs = [(fold, jobs.by_corrections(bench.learned, target, fold, learned)) for fold in folds]
    known = _seen_groups(bench, learned)
    candidate, former = (
        _scorable(jobs.joined(bench, target, (splits.LEAVE_GROUP_OUT, name), parts), known)
        for name, parts in (("candidate", mine), ("active", theirs))
    )
    return candidate, former


def _of(metric: str, candidate: Scored, former: Scored, score: Callable[[Scored], float]) -> Comparison:
    return Comparison(
        target=candidate.target,
        metric=metric,
        rows=len(candidate.measured),
        groups=len(set(candidate.groups)),
        active=score(former),
        candidate=score(candidate),
    )


def _booking_loss(scored: Scored) -> float:
    """Return the loss of bounds as they are booked, in percent of a GPU; see the module."""
    upper = scored.capacity if scored.predicted.upper is None else scored.predicted.upper
    beyond = scored.measured - np.minimum(upper, scored.capacity)
    return float(np.mean(100 / scored.capacity * np.maximum(LEVEL * beyond, (LEVEL - 1) * beyond)))


def _of_domain(bench: Bench, target: str, learned: Guarded | None) -> Comparison:
    """Return how many of the measured rows are not packed with each of both."""
    lines = np.flatnonzero(np.isfinite(bench.measurements.values(target)))
    whole = Fold("", lines, lines)
    mine = jobs.learners_of(bench, target)[jobs.COTENANT](bench, target, whole)
    theirs = jobs.by_corrections(bench.learned, target, whole, learned)
    candidate, former = (
        jobs.joined(bench, target, ("", name), [(whole, part)])
        for name, part in (("candidate", mine), ("active", theirs))
    )
    return _of(OUT_OF_DOMAIN, candidate, former, lambda each: float(np.mean(_outside(each))))


def _outside(scored: Scored) -> Array:
    outside = scored.predicted.outside
    return np.zeros(len(scored.measured), dtype=np.bool_) if outside is None else outside


def _seen_groups(bench: Bench, learned: Guarded | None) -> frozenset[str]:
    """Return the groups of which a line is among those that the model in use was taught by."""
    if learned is None:
        return frozenset()
    near: Array = learned.distance(bench.learned.rows) < SAME_ROW
    return frozenset(np.asarray(bench.measurements.groups)[near].tolist())


def _scorable(scored: Scored, known: frozenset[str]) -> Scored:
    new = np.array([group not in known for group in scored.groups], dtype=np.bool_)
    return scored.where(np.isfinite(scored.measured) & new)
