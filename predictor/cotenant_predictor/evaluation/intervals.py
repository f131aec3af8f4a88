"""Intervals of scores by resampling whole groups: rows of one architecture fail together and are no independent proof.

Percentile bootstrap with a fixed seed; pure.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

DRAWS: Final = 400
LEVEL: Final = 0.95


def over_groups(
    statistic: Callable[[Array], float],
    groups: Sequence[str],
    *,
    seed: int = 0,
    draws: int = DRAWS,
    level: float = LEVEL,
) -> tuple[float, float]:
    """Between which values a score lies in `level` of the draws of as many groups with replacement.

    Args:
        statistic: the score of the rows at these positions, shape (n_drawn,).
        groups: the group of each row.
        seed: of the draws.
        draws: how often groups are drawn.
        level: share of the draws between the two values.

    Returns:
        Low and high; both NaN where there are fewer than two groups, because nothing can be said then.
    """
    names, inverse = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    if len(names) < 2:
        return float("nan"), float("nan")
    order = np.argsort(inverse, kind="stable")
    counts = np.bincount(inverse)
    starts = np.cumsum(counts) - counts
    generator = np.random.default_rng(seed)
    values = np.empty(draws)
    for draw in range(draws):
        drawn = generator.integers(len(names), size=len(names))
        sizes = counts[drawn]
        before = np.repeat(starts[drawn] - (np.cumsum(sizes) - sizes), sizes)
        values[draw] = statistic(order[before + np.arange(sizes.sum())])
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
