"""How fast a job runs alone on a part of the multiprocessors: one curve with one number per job. Pure arithmetic.

    speed(p) = sqrt((1 + k^2) / (1 + (k / p)^2))        p in (0, 1], speed(1) = 1

k is the share around which the job starts to lack multiprocessors: far below it speed falls in proportion to p, far
above it nothing is lost. Of the curves with one number (Amdahl's law, a power, a broken line, this one with exponents
1.5 to 4) this one misses the slices of the published measurements of MISO least: a slice left out by 0.044 of the full
speed in the mean (`cotenant evaluate miso`). Those slices share memory bandwidth too, which thread percentages do not.
"""

from typing import Final

import numpy as np

from cotenant_predictor.trees import Array

SHARPNESS: Final = 2.0
"""The exponent inside the root."""
SPEED_KEPT: Final = 0.95
"""The speed that a thread demand keeps (`jobs.step`)."""
MAX_KNEE: Final = 20.0
"""A job that needs every multiprocessor: its speed is the share, within a quarter of a percent."""


def speed(share: Array, knee: Array) -> Array:
    """Speed at a share of the multiprocessors, of the speed with all of them; shapes broadcast.

    Args:
        share: above 0, at most 1.
        knee: k, at least 0.
    """
    power = np.power(knee, SHARPNESS)
    ratio = (1 + power) / (1 + power * np.power(share, -SHARPNESS))
    result: Array = np.power(ratio, 1 / SHARPNESS)
    return result


def knee_of_demand(demand: Array | float) -> Array:
    """Return the k of a job that keeps `SPEED_KEPT` of its speed at this share of the multiprocessors, any shape."""
    kept = SPEED_KEPT**SHARPNESS
    gap = kept * np.power(np.clip(demand, 1e-3, 1.0), -SHARPNESS) - 1
    power = (1 - kept) / np.maximum(gap, (1 - kept) / MAX_KNEE**SHARPNESS)
    result: Array = np.power(power, 1 / SHARPNESS)
    return result


def knee_of_speeds(share: Array, measured: Array) -> float:
    """Return the k that misses measured speeds at shares least, both of shape (n_shares,)."""
    candidates = np.concatenate([[0.0], np.geomspace(0.01, MAX_KNEE, 400)])
    missed = speed(share[None, :], candidates[:, None]) - measured
    return float(candidates[np.argmin((missed**2).sum(axis=1))])
