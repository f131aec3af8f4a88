"""Histories as figures."""

import pytest

from cotenant_simulator.engine import conditions, figures, history
from simulator import jobs_kit


def one_run() -> history.History:
    given = [jobs_kit.job("a", 60, seconds=100), jobs_kit.job("b", 60, seconds=100), jobs_kit.job("c", 90, gpus=9)]
    return jobs_kit.ran(given, under=conditions.Conditions(spans=True))


def test_utilization_is_of_all_gpus_and_holds_until_it_changes() -> None:
    found = figures.utilization({"one": one_run()})
    (line,) = found.series
    assert found.steps
    assert list(line.x) == [0, 100, 200]
    assert list(line.y) == pytest.approx([60, 60, 0])


def test_pods_that_wait_are_counted_over_time() -> None:
    (line,) = figures.waiting({"one": one_run()}).series
    assert list(line.y) == [2, 1, 1]


def test_distribution_of_waits_ends_below_all_where_some_never_started() -> None:
    (line,) = figures.waits({"one": [one_run()]}).series
    assert list(line.x) == [0, 100]
    assert list(line.y) == pytest.approx([100 / 3, 200 / 3])


def test_repeats_are_counted_together() -> None:
    (line,) = figures.completions({"one": [one_run(), one_run()]}).series
    assert list(line.x) == [100, 200]
    assert list(line.y) == pytest.approx([100 / 3, 200 / 3])


def test_slowdown_is_told_of_jobs_that_ended() -> None:
    (line,) = figures.slowdowns({"one": [one_run()]}).series
    assert list(line.x) == [0]
    assert list(line.y) == pytest.approx([200 / 3])


def test_timeline_has_a_lane_for_each_gpu_and_a_span_for_each_stay() -> None:
    lanes = figures.timeline("one", one_run()).lanes
    (lane,) = lanes.values()
    assert [(span.name, span.start, span.end, span.share) for span in lane] == [
        ("a", 0, 100, 0.6),
        ("b", 100, 200, 0.6),
    ]


def test_timeline_of_a_run_without_spans_is_refused() -> None:
    with pytest.raises(ValueError, match="spans=True"):
        figures.timeline("one", jobs_kit.ran([jobs_kit.job("a", 60)]))


def test_equal_values_make_one_step() -> None:
    assert figures.distribution([3.0, 1.0, 3.0], of=4) == ([1.0, 3.0], [25.0, 75.0])
