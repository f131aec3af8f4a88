"""Whether a model that would be learned from measurements is better than the one in use. Writes nothing.

Judged on whole networks that neither has seen: of each fold the candidate learns from the other groups, and groups of
which the model in use was taught a line are left out of the score. What the ledger books by is what counts.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from cotenant_api import errors
from cotenant_predictor.datasets.measurements import Measurements
from cotenant_predictor.evaluation import jobs, scores, splits
from cotenant_predictor.evaluation.jobs import Bench
from cotenant_predictor.evaluation.scores import Predicted, Scored
from cotenant_predictor.evaluation.splits import Array, Fold
from cotenant_predictor.jobs import features
from cotenant_predictor.jobs.residual import Residual
from cotenant_predictor.models.store import Model

TARGETS: Final = ("utilization", "memoryPeakMiB")
BETTER: Final = 0.98
"""A score that is lower by less than 2 % is the same; it must not be higher by more either."""
SAME_ROW: Final = 1e-3
"""A row that is so near to one that was learned from was learned from: files hold 24 bits of a value."""

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """One target's scores on the same held-out rows, lower is better."""

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
    found = [_compared(bench, target, active) for target in jobs.measured_targets(alone, TARGETS)]
    return [each for each in found if each is not None]


def is_better(found: list[Comparison]) -> bool:
    """Whether the candidate is better at something and worse at nothing."""
    better = any(each.candidate < BETTER * each.active for each in found)
    return better and not any(each.active < BETTER * each.candidate for each in found)


def _compared(bench: Bench, target: str, active: Model) -> Comparison | None:
    learned = active.jobs.get(target)
    folds = jobs.folds_of(bench.measurements, splits.LEAVE_GROUP_OUT, target)
    mine = [(fold, jobs.learners_of(bench, target)[jobs.COTENANT](bench, target, fold)) for fold in folds]
    theirs = [(fold, _of_active(bench, target, fold, learned)) for fold in folds]
    known = _seen_groups(bench, learned)
    candidate, former = (
        _scorable(jobs.joined(bench, target, (splits.LEAVE_GROUP_OUT, name), parts), known)
        for name, parts in (("candidate", mine), ("active", theirs))
    )
    if not len(candidate.measured):
        return None
    metric = scores.main_metric(target)
    score = scores.point(target)[metric]
    return Comparison(
        target=target,
        metric=metric,
        rows=len(candidate.measured),
        groups=len(set(candidate.groups)),
        active=score(former.measured, former.predicted.median),
        candidate=score(candidate.measured, candidate.predicted.median),
    )


def _of_active(bench: Bench, target: str, fold: Fold, learned: Residual | None) -> Predicted:
    rows = bench.learned
    median = rows.medians[target][fold.test] if learned is None else learned.median(rows.rows[fold.test])
    return Predicted(median=features.capped(target, median))


def _seen_groups(bench: Bench, learned: Residual | None) -> frozenset[str]:
    """The groups of which a line is among those that the model in use was taught by."""
    if learned is None:
        return frozenset()
    near: Array = learned.distance(bench.learned.rows) < SAME_ROW
    return frozenset(np.asarray(bench.measurements.groups)[near].tolist())


def _scorable(scored: Scored, known: frozenset[str]) -> Scored:
    new = np.array([group not in known for group in scored.groups], dtype=np.bool_)
    return scored.where(np.isfinite(scored.measured) & new)
