"""Splits of the threads against all splits there are, and the curves that they rest on."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_predictor.colocation import curves, partitions
from cotenant_predictor.datasets import miso
from cotenant_predictor.trees import Array

LEVELS = (10, 20, 30, 50, 70, 100)


def all_splits(jobs: int, levels: Sequence[int] = LEVELS) -> list[tuple[int, ...]]:
    """Every split of the threads that is allowed, as positions in `levels`."""
    places = itertools.product(range(len(levels)), repeat=jobs)
    return [split for split in places if sum(levels[place] for place in split) <= 100]


def speeds_of(split: Sequence[int], table: Array) -> list[float]:
    return [table[job][place] for job, place in enumerate(split)]


def random_tables(jobs: int, seed: int, count: int = 25) -> Iterator[Array]:
    generator = np.random.default_rng(seed)
    for number in range(count):
        table = generator.random((jobs, len(LEVELS)))
        yield np.sort(table, axis=1) if number % 2 else table


def reached(table: Array, percentages: Sequence[int]) -> list[float]:
    return [table[job][LEVELS.index(level)] for job, level in enumerate(percentages)]


@pytest.mark.parametrize("jobs", [1, 2, 3, 4])
def test_throughput_is_the_best_of_all_splits(jobs: int) -> None:
    for table in random_tables(jobs, seed=jobs):
        best = max(sum(speeds_of(split, table)) for split in all_splits(jobs))
        chosen = partitions.throughput(table, LEVELS)
        assert sum(chosen) <= 100
        assert sum(reached(table, chosen)) == pytest.approx(best)


@pytest.mark.parametrize("jobs", [1, 2, 3, 4])
def test_max_min_is_the_best_of_all_splits_and_then_the_fastest_in_sum(jobs: int) -> None:
    for table in random_tables(jobs, seed=10 + jobs):
        key = max((min(found), sum(found)) for split in all_splits(jobs) if (found := speeds_of(split, table)))
        chosen = reached(table, partitions.max_min(table, LEVELS))
        assert (min(chosen), sum(chosen)) == pytest.approx(key)


@pytest.mark.parametrize("jobs", [2, 3, 4])
def test_primary_keeps_its_speed_at_the_smallest_percentage_that_does(jobs: int) -> None:
    for table in random_tables(jobs, seed=20 + jobs):
        largest = max(split[0] for split in all_splits(jobs))
        needed = next(place for place, speed in enumerate(table[0]) if speed >= 0.95 * table[0].max())
        own = min(needed, largest)
        best = max(sum(speeds_of(split, table)[1:]) for split in all_splits(jobs) if split[0] == own)
        chosen = partitions.primary(table, LEVELS)
        assert chosen[0] == LEVELS[own]
        assert sum(reached(table, chosen)[1:]) == pytest.approx(best)
        assert sum(chosen) <= 100


def test_equal_jobs_get_equal_parts_by_max_min() -> None:
    table = partitions.predicted([2.0, 2.0])
    assert partitions.max_min(table) == (50, 50)


def test_a_job_that_needs_few_threads_leaves_the_rest_to_the_other() -> None:
    table = partitions.predicted([0.05, 20.0])
    small, large = partitions.throughput(table)
    assert small < 30
    assert large > 60


def test_among_equally_good_splits_the_smallest_percentages_win() -> None:
    assert partitions.throughput(np.ones((2, len(LEVELS))), LEVELS) == (10, 10)
    assert partitions.primary(np.ones((2, len(LEVELS))), LEVELS) == (10, 10)


@pytest.mark.parametrize(
    ("speeds", "levels", "field"),
    [
        (np.ones((11, 6)), LEVELS, "levels"),
        (np.ones((2, 5)), LEVELS, "speeds"),
        (np.full((2, 6), np.nan), LEVELS, "speeds"),
        (np.ones((0, 6)), LEVELS, "speeds"),
        (np.ones((1, 2)), (50, 20), "levels"),
        (np.ones((1, 2)), (50, 120), "levels"),
    ],
)
def test_splits_that_cannot_be_are_refused_with_the_field(speeds: Any, levels: Any, field: Any) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        partitions.throughput(speeds, levels)
    assert caught.value.field == field


def test_a_curve_reaches_one_with_all_threads_and_never_falls_with_more() -> None:
    share = np.linspace(0.01, 1.0, 100)
    found = curves.speed(share[None, :], np.array([0.0, 0.1, 1.0, 20.0])[:, None])
    assert found[:, -1] == pytest.approx(1.0)
    assert (np.diff(found, axis=1) >= 0).all()
    assert found[-1] == pytest.approx(share, abs=3e-3)


@pytest.mark.parametrize("demand", [0.05, 0.3, 0.7, 0.94])
def test_a_job_keeps_its_speed_at_the_share_that_it_demands(demand: float) -> None:
    knee = curves.knee_of_demand(demand)
    assert curves.speed(np.array(demand), knee) == pytest.approx(curves.SPEED_KEPT)


def left_out(curve: miso.Curve, exponent: float) -> Iterator[float]:
    """How far a curve with this exponent, fitted to the other slices of a job, misses each of its slices."""
    knees = np.concatenate([[0.0], np.geomspace(0.01, 20.0, 100)])[:, None]

    def shape(share: Array) -> Array:
        power = knees**exponent
        return ((1 + power) / (1 + power * share[None, :] ** -exponent)) ** (1 / exponent)

    slices = np.flatnonzero(curve.share < 1)
    for held in slices:
        kept = slices[slices != held]
        best = ((shape(curve.share[kept]) - curve.speed[kept]) ** 2).sum(axis=1).argmin()
        yield abs(shape(curve.share[[held]])[best, 0] - curve.speed[held])


def test_the_sharpness_of_the_curve_is_the_one_that_misses_the_published_slices_least() -> None:
    jobs = miso.load()
    missed = {
        exponent: np.mean([error for curve in jobs for error in left_out(curve, exponent)]) for exponent in (1, 2, 4)
    }
    assert min(missed, key=lambda exponent: missed[exponent]) == curves.SHARPNESS
    assert missed[2] == pytest.approx(0.044, abs=5e-4)


def test_the_published_slices_are_speeds_of_32_jobs_between_a_seventh_and_the_whole_gpu() -> None:
    found = miso.load()
    assert len(found) == 32
    assert all(curve.speed[-1] == 1.0 and curve.share[-1] == 1.0 for curve in found)
    assert all((np.diff(curve.share) > 0).all() for curve in found)
