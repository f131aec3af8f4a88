"""Predictions beside what was measured, and the scores that each kind of target is judged by. Pure."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from cotenant_predictor.evaluation import metrics, report, splits
from cotenant_predictor.evaluation.report import Row
from cotenant_predictor.evaluation.splits import Array
from cotenant_predictor.jobs import features

MEMORY: Final = "memoryPeakMiB"
ROWS_TO_JUDGE_A_GROUP: Final = 5
"""Coverage of a group with fewer rows says nothing; with no larger group, all groups are judged."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predicted:
    """What a model says of some rows, shape (n_rows,)."""

    median: Array
    upper: Array | None = None
    """None: the model gives no bound."""
    outside: Array | None = None
    """Whether the model says not to trust it; None: it never says so."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scored:
    """One model's predictions of the held-out rows of a split; arrays have shape (n_rows,)."""

    target: str
    split: str
    model: str
    measured: Array
    """NaN: the run ended out of memory, and `floor` holds what it needed at least."""
    floor: Array
    capacity: Array
    """How much of the target the row's GPU has; what has no limit: infinite."""
    predicted: Predicted
    groups: tuple[str, ...]
    """What intervals are drawn over."""
    held_out: tuple[str, ...]
    """What the fold of each row held out."""
    regimes: tuple[str, ...]
    simulated: bool = False

    def where(self, keep: Array) -> "Scored":
        """Return the rows that a boolean array of shape (n_rows,) keeps."""
        index = np.flatnonzero(keep)
        one = self.predicted
        return dataclasses.replace(
            self,
            measured=self.measured[index],
            floor=self.floor[index],
            capacity=self.capacity[index],
            predicted=Predicted(
                median=one.median[index],
                upper=None if one.upper is None else one.upper[index],
                outside=None if one.outside is None else one.outside[index],
            ),
            groups=tuple(self.groups[row] for row in index),
            held_out=tuple(self.held_out[row] for row in index),
            regimes=tuple(self.regimes[row] for row in index),
        )

    def row(self, metric: str, statistic: Callable[..., Any], *arrays: Array) -> Row:
        """Return a score over all rows, with its interval."""
        empty = Row(target=self.target, split=self.split, model=self.model, metric=metric, value=0.0, n=0)
        empty = dataclasses.replace(empty, simulated=self.simulated)
        return report.scored(empty, statistic, arrays, self.groups)


def main_metric(target: str) -> str:
    """Return the metric that a target is first judged by."""
    return "rmsle" if target in features.PERCENT_TARGETS else "mape"


def point(target: str) -> dict[str, Callable[..., float]]:
    """Return the scores of a target's median, by name, of (measured, median)."""
    if target in features.PERCENT_TARGETS:
        return {"rmsle": metrics.rmsle, "mae": metrics.mae, "underBy5Points": _under_by_5_points}
    return {"mape": metrics.mape, "mdape": metrics.mdape, "rmsle": metrics.rmsle}


def rows_of(scored: Scored, *, max_groups: int) -> Iterator[Row]:
    """Every score of one model on one split; of what was held out one by one too, where that is not too much."""
    known = scored.where(np.isfinite(scored.measured))
    if len(known.measured):
        for name, statistic in point(scored.target).items():
            yield known.row(name, statistic, known.measured, known.predicted.median)
        yield from _bound_rows(known)
        yield from _held_out_rows(known, max_groups=max_groups)
    yield from _out_of_memory_rows(scored.where(np.isfinite(scored.floor)))


def _bound_rows(scored: Scored) -> Iterator[Row]:
    upper = scored.predicted.upper
    if upper is None:
        return
    yield scored.row("coverage", metrics.coverage, scored.measured, upper)
    yield _worst_group(scored, upper, "worstGroupCoverage")
    if scored.target == MEMORY:
        yield scored.row("underAtSafeBound", metrics.under_share, scored.measured, upper)
    if scored.target in features.PERCENT_TARGETS:
        yield scored.row("overReservationPoints", metrics.over_reservation, scored.measured, upper)
    else:
        yield scored.row("overReservationFactor", metrics.over_reservation_factor, scored.measured, upper)
    outside = scored.predicted.outside
    if outside is None:
        return
    yield scored.row("outOfDomainShare", np.mean, outside.astype(np.float64))
    inside = scored.where(~outside)
    if inside.predicted.upper is not None and len(inside.measured):
        yield inside.row("coverageInDomain", metrics.coverage, inside.measured, inside.predicted.upper)
        yield _worst_group(inside, inside.predicted.upper, "worstGroupCoverageInDomain")


def _worst_group(scored: Scored, upper: Array, metric: str) -> Row:
    """Return the coverage of the group that is covered worst, and its name."""
    labels = np.asarray(scored.groups)
    names, counts = np.unique(labels, return_counts=True)
    enough = counts >= ROWS_TO_JUDGE_A_GROUP
    keep = np.isin(labels, names[enough] if enough.any() else names)
    found = metrics.coverage_by_group(scored.measured[keep], upper[keep], labels[keep].tolist())
    worst = min(found, key=lambda name: found[name])
    return Row(
        target=scored.target,
        split=scored.split,
        model=scored.model,
        metric=metric,
        value=found[worst],
        n=int((labels == worst).sum()),
        worst=worst,
        simulated=scored.simulated,
    )


def _held_out_rows(scored: Scored, *, max_groups: int) -> Iterator[Row]:
    """Yield the main score of each label that was held out; a shuffle has no name that says anything."""
    labels = np.asarray(scored.held_out)
    names = np.unique(labels)
    if scored.split == splits.RANDOM or not 1 < len(names) <= max_groups:
        return
    metric = main_metric(scored.target)
    for name in names:
        one = scored.where(labels == name)
        row = one.row(metric, point(scored.target)[metric], one.measured, one.predicted.median)
        yield dataclasses.replace(row, group=str(name))


def _out_of_memory_rows(scored: Scored) -> Iterator[Row]:
    """Yield the share of jobs that ran out of memory whose safe bound had said so."""
    upper = scored.predicted.upper
    if upper is not None and len(scored.floor):
        yield scored.row("outOfMemoryForeseen", metrics.under_share, upper, scored.floor)


def _under_by_5_points(measured: Array, predicted: Array) -> float:
    return metrics.under_share(measured, predicted, tolerance=metrics.UNDER_POINTS)
