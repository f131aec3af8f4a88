"""Metrics against values worked out by hand."""

import math

import numpy as np
import pytest

from cotenant_predictor.evaluation import metrics

MEASURED = np.array([10.0, 20.0, 40.0])
PREDICTED = np.array([12.0, 10.0, 40.0])


def test_rmsle_is_of_one_plus_points() -> None:
    expected = math.sqrt((math.log(13 / 11) ** 2 + math.log(11 / 21) ** 2) / 3)
    assert metrics.rmsle(MEASURED, PREDICTED) == pytest.approx(expected)


def test_rmsle_takes_what_is_predicted_below_zero_as_zero() -> None:
    assert metrics.rmsle(np.array([0.0]), np.array([-3.0])) == 0.0


def test_absolute_errors_are_in_the_targets_unit() -> None:
    assert metrics.mae(MEASURED, PREDICTED) == pytest.approx(4.0)
    assert metrics.rmse(MEASURED, PREDICTED) == pytest.approx(math.sqrt(104 / 3))


def test_relative_errors_are_shares_of_what_was_measured() -> None:
    assert metrics.mape(MEASURED, PREDICTED) == pytest.approx((0.2 + 0.5 + 0) / 3)
    assert metrics.mdape(MEASURED, PREDICTED) == pytest.approx(0.2)


def test_relative_errors_leave_out_what_was_measured_as_zero() -> None:
    assert metrics.mape(np.array([0.0, 10.0]), np.array([5.0, 11.0])) == pytest.approx(0.1)
    assert math.isnan(metrics.mape(np.zeros(2), np.ones(2)))
    assert math.isnan(metrics.mdape(np.zeros(2), np.ones(2)))


def test_under_prediction_counts_only_beyond_the_tolerance() -> None:
    assert metrics.under_share(MEASURED, PREDICTED) == pytest.approx(1 / 3)
    assert metrics.under_share(MEASURED, PREDICTED, tolerance=10.0) == 0.0
    assert metrics.under_share(MEASURED, PREDICTED, tolerance=9.9) == pytest.approx(1 / 3)


def test_a_bound_that_is_met_exactly_covers() -> None:
    assert metrics.coverage(MEASURED, np.array([10.0, 19.0, 50.0])) == pytest.approx(2 / 3)


def test_coverage_is_told_by_group() -> None:
    found = metrics.coverage_by_group(MEASURED, np.array([10.0, 19.0, 50.0]), ["b", "a", "b"])
    assert found == {"a": 0.0, "b": 1.0}


def test_over_reservation_counts_only_what_is_too_much() -> None:
    assert metrics.over_reservation(MEASURED, np.array([13.0, 10.0, 40.0])) == pytest.approx(1.0)


def test_the_over_reservation_factor_is_a_geometric_mean() -> None:
    assert metrics.over_reservation_factor(np.array([1.0, 1.0]), np.array([4.0, 1.0])) == pytest.approx(2.0)
    assert math.isnan(metrics.over_reservation_factor(np.zeros(1), np.ones(1)))


@pytest.mark.parametrize("metric", [metrics.rmsle, metrics.mae, metrics.rmse, metrics.mape, metrics.mdape])
def test_a_perfect_prediction_has_no_error(metric: object) -> None:
    assert callable(metric)
    assert metric(MEASURED, MEASURED) == 0.0
