"""Means over repeats with 95 % intervals, by Student's t: repeats are few and independent (seeds). Pure."""

import math
import statistics
from collections.abc import Sequence
from typing import Final

from scipy import stats

from cotenant_simulator.report import page

CONFIDENCE: Final = 0.95


def mean(values: Sequence[float], *, least: float = -math.inf) -> page.Estimate | None:
    """Return the mean with its interval: None of nothing; one value has no interval.

    Args:
        values: one of each repeat.
        least: what the quantity cannot fall below; the interval ends there.
    """
    if not values:
        return None
    middle = statistics.fmean(values)
    if len(values) == 1:
        return page.Estimate(middle, middle, middle)
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * error
    return page.Estimate(middle, max(middle - half, least), middle + half)
