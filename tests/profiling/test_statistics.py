"""Steps within a window, distributions, noise, arrivals."""

import math

import pytest

from cotenant_predictor.profiling import arrivals, statistics


def test_a_distribution_of_nothing_is_none() -> None:
    assert statistics.distribution([]) is None


def test_a_distribution_has_mean_percentiles_and_spread() -> None:
    found = statistics.distribution([float(n) for n in range(1, 102)])
    assert found == {"mean": 51.0, "p50": 51.0, "p99": 100.0, "std": pytest.approx(math.sqrt(850))}


def test_a_step_across_the_edge_of_the_window_counts_by_its_part_inside() -> None:
    spans = [(0.0, 2.0), (2.0, 3.0), (3.0, 5.0)]
    assert statistics.steps_within(spans, 1.0, 4.0) == pytest.approx(2.0)
    assert statistics.milliseconds_within(spans, 1.0, 4.0) == [1000.0]


def test_a_job_covers_a_window_only_if_it_ran_from_before_it_to_behind_it() -> None:
    spans = [(0.5, 1.5), (1.5, 2.5)]
    assert statistics.covers(spans, 1.0, 2.0)
    assert not statistics.covers(spans, 0.0, 2.0)
    assert not statistics.covers(spans, 1.0, 3.0)
    assert not statistics.covers([], 1.0, 3.0)


def test_slowdown_is_the_time_added_over_the_time_alone() -> None:
    assert statistics.slowdown(together_seconds=0.3, alone_seconds=0.2) == pytest.approx(0.5)


def test_the_noise_floor_is_the_median_spread_over_groups_with_repeats() -> None:
    found = statistics.noise_floor([[1.0, 1.0], [9.0, 11.0], [5.0]])
    assert found is not None
    assert found["groups"] == 2
    assert found["max"] == pytest.approx(math.sqrt(2) / 10)
    assert found["median"] == pytest.approx(math.sqrt(2) / 20)


def test_without_repeats_there_is_no_noise_floor() -> None:
    assert statistics.noise_floor([[1.0]]) is None


def test_poisson_requests_come_at_the_rate_asked_for_and_alike_for_the_same_seed() -> None:
    times = arrivals.poisson(20_000, requests_per_second=50.0, seed=3)
    assert times == sorted(times)
    assert times[-1] == pytest.approx(400.0, rel=0.02)
    assert times == arrivals.poisson(20_000, requests_per_second=50.0, seed=3)
    assert times != arrivals.poisson(20_000, requests_per_second=50.0, seed=4)


def test_requests_at_no_rate_are_refused() -> None:
    with pytest.raises(ValueError, match=r"requests_per_second 0\.0: must be more than 0"):
        arrivals.poisson(1, requests_per_second=0.0, seed=0)
