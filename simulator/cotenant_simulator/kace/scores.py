"""What each way to choose reached over all targets, with intervals. Pure.

Intervals are percentile bootstraps of `evaluation.intervals`: whole groups of targets are drawn, because the batch
sizes of one model fail together, and the same model on two GPU models does, too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant_predictor.evaluation import intervals, partners
from cotenant_predictor.trees import Array
from cotenant_simulator.kace import candidates, choosers, judging
from cotenant_simulator.report import page


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One way's, in percent.

    Attributes:
        share: of the oracle's sum of speeds, mean over targets.
        gap: how much of what chance leaves to the oracle is reached; None where chance leaves nothing.
        hit: targets for which it takes a partner that the oracle would.
        best: targets for which no other way but the oracle reaches more; equals count for each.
    """

    share: page.Estimate
    gap: page.Estimate | None
    hit: page.Estimate
    best: int


def of(targets: Sequence[judging.Target]) -> dict[str, Score]:
    """Return the scores of every way, by name.

    Args:
        targets: at least one.
    """
    groups = [target.group for target in targets]
    shares = {name: np.array([target.ways[name].share for target in targets]) for name in choosers.NAMES}
    rivals = np.max([values for name, values in shares.items() if name != partners.ORACLE], axis=0)
    chance, found = shares[partners.RANDOM], {}
    for name, share in shares.items():
        hits = np.array([target.ways[name].hit for target in targets])
        found[name] = Score(
            share=mean(share, groups),
            gap=_gap(share, chance, groups),
            hit=mean(hits, groups),
            best=int((share >= rivals - candidates.SAME).sum()),
        )
    return found


def mean(values: Array, groups: Sequence[str]) -> page.Estimate:
    """In percent, of values 0..1; without width where all targets are of one group."""
    middle = 100 * float(values.mean())
    low, high = intervals.over_groups(lambda drawn: float(values[drawn].mean()), groups)
    if math.isnan(low):
        return page.Estimate(middle, middle, middle)
    return page.Estimate(middle, 100 * low, 100 * high)


def _gap(share: Array, chance: Array, groups: Sequence[str]) -> page.Estimate | None:
    def closed(drawn: Array) -> float:
        left = 1 - float(chance[drawn].mean())
        return 100 * (float(share[drawn].mean()) - float(chance[drawn].mean())) / left if left > 0 else math.nan

    middle = closed(np.arange(len(share)))
    if math.isnan(middle):
        return None
    low, high = intervals.over_groups(closed, groups)
    return page.Estimate(middle, middle if math.isnan(low) else low, middle if math.isnan(high) else high)
