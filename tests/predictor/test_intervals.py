"""Intervals: drawn over whole groups, the same each time, silent where nothing can be said."""

import math

import numpy as np

from cotenant_predictor.evaluation import intervals

VALUES = np.random.default_rng(0).normal(size=200)


def mean(index: intervals.Array) -> float:
    return float(VALUES[index].mean())


def test_the_same_seed_gives_the_same_interval() -> None:
    groups = [str(row // 4) for row in range(200)]
    assert intervals.over_groups(mean, groups) == intervals.over_groups(mean, groups)
    assert intervals.over_groups(mean, groups) != intervals.over_groups(mean, groups, seed=1)


def test_the_interval_of_a_mean_is_about_two_standard_errors_wide() -> None:
    low, high = intervals.over_groups(mean, [str(row) for row in range(200)], draws=2000)
    error = float(VALUES.std()) / math.sqrt(200)
    assert low < VALUES.mean() < high
    assert 3.4 < (high - low) / error < 4.4


def test_rows_that_repeat_within_a_group_do_not_narrow_the_interval() -> None:
    values = np.repeat(VALUES[:10], 20)
    alone = intervals.over_groups(lambda index: float(VALUES[index].mean()), [str(row) for row in range(10)])
    repeated = intervals.over_groups(lambda index: float(values[index].mean()), [str(row // 20) for row in range(200)])
    assert np.allclose(alone, repeated)


def test_one_group_gives_no_interval() -> None:
    assert all(math.isnan(value) for value in intervals.over_groups(mean, ["only"] * 200))


def test_draws_without_a_value_are_left_out() -> None:
    low, high = intervals.over_groups(lambda index: 1.0 if 0 in index else math.nan, ["a", "b"])
    assert (low, high) == (1.0, 1.0)
    assert all(math.isnan(value) for value in intervals.over_groups(lambda _: math.nan, ["a", "b"]))
