"""How to split the threads of a GPU among its tenants, from the speed of each at each percentage. Pure and exact.

    Throughput   the largest sum of speeds
    MaxMin       the largest smallest speed; of those the largest sum
    Primary      the first job keeps a share of what it reaches with all threads, at the smallest percentage that does;
                 the others get the largest sum of speeds from the rest

Percentages are whole, add up to at most 100, and every tenant gets at least the smallest level. A speed is of the
job's speed alone (normalised progress). Among equally good splits the smallest percentages win, the first tenant's
first.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from cotenant_api import errors
from cotenant_predictor.colocation import curves
from cotenant_predictor.trees import Array

WHOLE: Final = 100
LEVELS: Final = tuple(range(5, WHOLE + 1, 5))
"""Percentages that are considered."""
_EQUAL: Final = 1e-12


def predicted(knees: Sequence[float], levels: Sequence[int] = LEVELS) -> Array:
    """Speed of every job at every percentage, shape (n_jobs, n_levels), from the knees of `curves`."""
    share = np.array(levels, dtype=np.float64) / WHOLE
    return curves.speed(share[None, :], np.array(knees, dtype=np.float64)[:, None])


def throughput(speeds: Array, levels: Sequence[int] = LEVELS) -> tuple[int, ...]:
    """Percentages with the largest sum of speeds, by job.

    Args:
        speeds: of every job at every percentage, shape (n_jobs, n_levels).
        levels: the percentages, ascending.

    Raises:
        InvalidInputError: shapes differ, a value is not finite, or the jobs do not fit even at the smallest percentage.
    """
    return _largest_sum(_checked(speeds, levels), levels, least=[0] * len(speeds))


def max_min(speeds: Array, levels: Sequence[int] = LEVELS) -> tuple[int, ...]:
    """Percentages with the largest smallest speed, of those the largest sum; arguments and errors as `throughput`."""
    checked = _checked(speeds, levels)
    best = [0] * len(checked)
    for wanted in np.unique(checked):
        least = [_first_reaching(row, float(wanted)) for row in checked]
        if any(place is None for place in least):
            break
        places = [place for place in least if place is not None]
        if sum(levels[place] for place in places) > WHOLE:
            break
        best = places
    smallest = min(row[place] for row, place in zip(checked, best, strict=True))
    allowed = np.where(checked >= smallest - _EQUAL, checked, -np.inf)
    return _largest_sum(allowed, levels, least=best)


def primary(speeds: Array, levels: Sequence[int] = LEVELS, *, kept: float = curves.SPEED_KEPT) -> tuple[int, ...]:
    """Percentages with which the first job keeps `kept` of its best speed, and the others run fastest in sum.

    Where the others do not fit beside that, the first job gets what their smallest percentages leave. Arguments and
    errors as `throughput`.
    """
    checked = _checked(speeds, levels)
    rest = levels[0] * (len(checked) - 1)
    fitting = [place for place, level in enumerate(levels) if level + rest <= WHOLE]
    needed = _first_reaching(checked[0], kept * float(checked[0].max()))
    own = min(fitting[-1], fitting[-1] if needed is None else needed)
    if len(checked) == 1:
        return (levels[own],)
    others = _largest_sum(checked[1:], levels, least=[0] * (len(checked) - 1), whole=WHOLE - levels[own])
    return (levels[own], *others)


def _largest_sum(speeds: Array, levels: Sequence[int], *, least: Sequence[int], whole: int = WHOLE) -> tuple[int, ...]:
    """Dynamic programme over jobs and percentages left (a multiple-choice knapsack), from the last job to the first."""
    best = np.zeros(whole + 1)
    choices: list[Array] = []
    for row, lowest in zip(speeds[::-1], least[::-1], strict=True):
        found, chosen = np.full(whole + 1, -np.inf), np.zeros(whole + 1, dtype=np.intp)
        for place in range(lowest, len(levels)):
            level = levels[place]
            if level > whole:
                break
            reached = np.full(whole + 1, -np.inf)
            reached[level:] = row[place] + best[: whole + 1 - level]
            better = reached > found + _EQUAL
            found, chosen = np.where(better, reached, found), np.where(better, place, chosen)
        best = found
        choices.append(chosen)
    left, result = whole, []
    for chosen in choices[::-1]:
        level = levels[int(chosen[left])]
        result.append(level)
        left -= level
    return tuple(result)


def _first_reaching(row: Array, wanted: float) -> int | None:
    reaching = np.flatnonzero(row >= wanted - _EQUAL)
    return int(reaching[0]) if len(reaching) else None


def _checked(speeds: Array, levels: Sequence[int]) -> Array:
    found = np.asarray(speeds, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] != len(levels) or not found.size or not np.isfinite(found).all():
        remedy = f"must be finite speeds of every job at each of {len(levels)} percentages"
        raise errors.InvalidInputError("speeds", found.shape, remedy)
    if list(levels) != sorted(set(levels)) or levels[0] < 1 or levels[-1] > WHOLE:
        raise errors.InvalidInputError("levels", tuple(levels), "must be ascending percentages from 1 to 100")
    if levels[0] * len(found) > WHOLE:
        remedy = f"{len(found)} jobs need {levels[0]} % each at least: take fewer jobs, or allow smaller percentages"
        raise errors.InvalidInputError("levels", tuple(levels), remedy)
    return found
