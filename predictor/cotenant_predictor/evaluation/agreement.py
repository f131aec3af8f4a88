"""How far two measurements of the same pairs agree: no score on either says more than that. Pure.

    judged-by-second    partners that the first measurement says are best, judged by the second, beside random ones
    judged-by-first     the other way

Scores are those of `partners`; a target counts where both measured a pair of it. What a model reaches beyond the other
measurement's choice, it owes to one measurement's noise.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from cotenant_predictor.datasets.joint import Joint
from cotenant_predictor.evaluation import colocation, metrics, partners, report
from cotenant_predictor.evaluation.colocation import Bench
from cotenant_predictor.evaluation.report import Row
from cotenant_predictor.trees import Array

FIRST: Final = "first-measurement"
SECOND: Final = "second-measurement"
BY_FIRST: Final = "judged-by-first"
BY_SECOND: Final = "judged-by-second"


def rows(first: Joint, second: Joint, *, progress: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Scores of each by the other over all GPU models, and of each GPU model.

    Args:
        first: runs of pairs.
        second: the same jobs, by name and GPU model.
        progress: told what is being compared.
    """
    found = list(_both(first, second))
    progress(f"{sum(one.count for one in found)} pairs that were measured twice")
    each = [row for one in found for row in _rows([one], group=one.gpu_model)]
    return [*_rows(found, group=None), *each]


class _Twice:
    """The pairs of one GPU model that both measured, in one order of jobs."""

    def __init__(self, one: Bench, other: Bench) -> None:
        place = {name: index for index, name in enumerate(_names(other))}
        # A job that the other does not have stands for any, and is left out.
        order = np.array([place.get(name, -1) for name in _names(one)])
        has = order >= 0
        totals, reordered = (bench.pairs.matrix(bench.pairs.total) for bench in (one, other))
        reordered = reordered[np.ix_(order, order)]
        both = np.isfinite(totals) & np.isfinite(reordered) & has & has[:, None]
        self.gpu_model, self.groups = one.gpu_model, np.array(one.pairs.groups)
        self.totals = {
            FIRST: np.where(both, totals, np.nan),
            SECOND: np.where(both, reordered, np.nan),
        }
        self._upper = np.triu(both)

    @property
    def count(self) -> int:
        """Pairs."""
        return int(self._upper.sum())

    def sums(self, name: str) -> Array:
        """Return what one of them measured, shape (n_pairs,)."""
        found: Array = self.totals[name][self._upper]
        return found

    def pair_groups(self) -> Array:
        """Return the group of each pair's first job, shape (n_pairs,)."""
        found: Array = self.groups[np.nonzero(self._upper)[0]]
        return found

    def shares(self, judge: str, wanted: Array) -> Array:
        """Share of the judge's oracle, shape (n_jobs,)."""
        return partners.shares(self.totals[judge], wanted)


def _names(bench: Bench) -> list[str]:
    return [bench.joint.jobs[job].name for job in bench.pairs.jobs]


def _both(first: Joint, second: Joint) -> Iterator[_Twice]:
    again = {bench.gpu_model: bench for bench in colocation.benches(second)}
    for bench in colocation.benches(first):
        other = again.get(bench.gpu_model)
        if other is not None:
            yield _Twice(bench, other)


def _rows(found: Sequence[_Twice], *, group: str | None) -> Iterator[Row]:
    for split, judge, chooser in ((BY_SECOND, SECOND, FIRST), (BY_FIRST, FIRST, SECOND)):
        random = np.concatenate([one.shares(judge, np.zeros_like(one.totals[judge])) for one in found])
        chosen = np.concatenate([one.shares(judge, one.totals[chooser]) for one in found])
        groups = np.concatenate([one.groups for one in found])
        usable = np.isfinite(random) & np.isfinite(chosen)
        for name, values in ((partners.RANDOM, random), (chooser, chosen)):
            row = Row(
                target=colocation.PARTNER, split=split, model=name, metric="shareOfOracle", value=0.0, n=0, group=group
            )
            yield report.scored(row, metrics.mean, [values[usable]], list(groups[usable]))
    sums = [np.concatenate([one.sums(name) for one in found]) for name in (SECOND, FIRST)]
    groups = np.concatenate([one.pair_groups() for one in found])
    for metric, statistic in (("correlation", metrics.correlation), ("mape", metrics.mape)):
        row = Row(target="speedSum", split=SECOND, model=FIRST, metric=metric, value=0.0, n=0, group=group)
        yield report.scored(row, statistic, sums, list(groups))
