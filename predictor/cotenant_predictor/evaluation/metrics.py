"""What a prediction is scored by. Arrays of shape (n_rows,), percent as points 0..100. Pure arithmetic.

    RMSLE = sqrt(mean((log(1 + predicted) - log(1 + measured))^2))      MAE   = mean |predicted - measured|
    MAPE  = mean |predicted - measured| / measured                      MdAPE = the median of the same

Percentages enter RMSLE as points: as fractions the same error would look several times smaller.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

UNDER_POINTS = 5.0
"""Points by which a utilization may be predicted too low before it counts."""


def rmsle(measured: Array, predicted: Array) -> float:
    """Root mean squared difference of the logarithms; what is predicted below 0 counts as 0."""
    difference = np.log1p(np.maximum(0.0, predicted)) - np.log1p(measured)
    return float(np.sqrt(np.mean(difference**2)))


def mean(values: Array) -> float:
    """Of scores."""
    return float(np.mean(values))


def correlation(measured: Array, predicted: Array) -> float:
    """Pearson's; NaN where one of them is the same everywhere."""
    if len(measured) < 2 or not (np.ptp(measured) and np.ptp(predicted)):
        return float("nan")
    return float(np.corrcoef(measured, predicted)[0, 1])


def mae(measured: Array, predicted: Array) -> float:
    """Mean absolute error, in the unit of the target."""
    return float(np.mean(np.abs(predicted - measured)))


def rmse(measured: Array, predicted: Array) -> float:
    """Root mean squared error, in the unit of the target."""
    return float(np.sqrt(np.mean((predicted - measured) ** 2)))


def mape(measured: Array, predicted: Array) -> float:
    """Mean absolute error as a share of what was measured; rows where that is 0 are left out."""
    shares = _relative(measured, predicted)
    return float(np.mean(shares)) if len(shares) else float("nan")


def mdape(measured: Array, predicted: Array) -> float:
    """Return the median of the same shares."""
    shares = _relative(measured, predicted)
    return float(np.median(shares)) if len(shares) else float("nan")


def under_share(measured: Array, predicted: Array, *, tolerance: float = 0.0) -> float:
    """Share of rows whose prediction lies more than `tolerance` below what was measured."""
    return float(np.mean(measured - predicted > tolerance))


def coverage(measured: Array, upper: Array) -> float:
    """Share of rows that the upper bound holds."""
    return float(np.mean(measured <= upper))


def coverage_by_group(measured: Array, upper: Array, groups: Sequence[str]) -> dict[str, float]:
    """Return the same within each group, by its name, sorted."""
    labels = np.asarray(groups, dtype=str)
    return {str(name): coverage(measured[labels == name], upper[labels == name]) for name in np.unique(labels)}


def over_reservation(measured: Array, upper: Array) -> float:
    """Mean of what the upper bound reserves beyond what was used, in the unit of the target."""
    return float(np.mean(np.maximum(0.0, upper - measured)))


def over_reservation_factor(measured: Array, upper: Array) -> float:
    """Geometric mean of upper bound over use, for amounts that have no common scale; rows of 0 are left out."""
    used = measured > 0
    return float(np.exp(np.mean(np.log(upper[used] / measured[used])))) if used.any() else float("nan")


def _relative(measured: Array, predicted: Array) -> Array:
    some = measured != 0
    shares: Array = np.abs(predicted[some] - measured[some]) / np.abs(measured[some])
    return shares
