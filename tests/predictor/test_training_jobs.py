"""Corrections learned from measurements: as far as held-out groups allow, and no further."""

import json

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from cotenant_predictor.jobs.residual import Residual
from cotenant_predictor.training import conformal, trees
from cotenant_predictor.training.jobs import JobRegressor
from cotenant_predictor.trees import Array, Trees

GROUPS = np.repeat(np.arange(12), 10)


@parametrize_with_checks([JobRegressor(n_estimators=5)])  # type: ignore[untyped-decorator]
def test_estimator_keeps_scikit_learns_contract(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


def example(*, factor: Array | float = 1.0, noise: float = 0.05, seed: int = 1) -> tuple[Array, Array]:
    """Rows whose first column is the log of an estimate, and what is measured: the estimate times a factor."""
    random = np.random.default_rng(seed)
    estimate = random.uniform(5, 80, len(GROUPS))
    group_features = random.normal(size=(12, 3))[GROUPS]
    measured = np.expm1(np.log1p(estimate) + np.log(factor) + noise * random.normal(size=len(GROUPS)))
    return np.column_stack([np.log1p(estimate), group_features, random.normal(size=(len(GROUPS), 2))]), measured


def test_formula_that_is_right_is_left_alone() -> None:
    rows, measured = example()
    fitted = JobRegressor(n_estimators=20).fit(rows, measured, groups=GROUPS)
    assert fitted.prior_ == "physics"
    assert fitted.model_.trust_far < 0.3
    assert fitted.predict(rows) == pytest.approx(np.expm1(rows[:, 0]), rel=0.15)


def test_common_factor_is_learned_and_holds_for_strange_rows() -> None:
    rows, measured = example(factor=2.0)
    fitted = JobRegressor(n_estimators=20).fit(rows, measured, groups=GROUPS)
    strange = rows[:1] + np.array([0, 30, 30, 30, 30, 30])
    assert fitted.prior_ == "shifted"
    assert fitted.predict(strange)[0] == pytest.approx(2 * np.expm1(rows[0, 0]), rel=0.1)
    assert fitted.is_outside(strange)[0]


def test_factor_of_each_group_is_used_near_it_and_not_far_from_it() -> None:
    factors = np.exp(np.random.default_rng(3).normal(0, 0.6, 12))
    rows, measured = example(factor=factors[GROUPS])
    fitted = JobRegressor(n_estimators=20).fit(rows, measured, groups=GROUPS)
    error = np.abs(np.log1p(fitted.predict(rows)) - np.log1p(measured))
    assert error.mean() < 0.1
    assert fitted.model_.trust_near > 0.9 > fitted.model_.trust_far + 0.3
    assert fitted.model_.width_near < fitted.model_.width_far


def test_estimate_without_meaning_is_hardly_used() -> None:
    rows, measured = example()
    shuffled = np.random.default_rng(5).permutation(measured)
    assert JobRegressor(n_estimators=20).fit(rows, shuffled, groups=GROUPS).model_.slope < 0.3


def test_upper_bound_covers_groups_that_were_not_seen() -> None:
    factors = np.exp(np.random.default_rng(7).normal(0, 0.3, 12))
    rows, measured = example(factor=factors[GROUPS])
    covered = []
    for held in range(12):
        known = held != GROUPS
        fitted = JobRegressor(n_estimators=30).fit(rows[known], measured[known], groups=GROUPS[known])
        covered.append((measured[~known] <= fitted.upper(rows[~known])).mean())
    assert np.mean(covered) >= 0.85


def test_rows_like_the_measured_ones_are_inside_however_many_were_measured() -> None:
    random = np.random.default_rng(9)
    rows, groups = random.normal(size=(3000, 12)), np.arange(3000) % 10
    fitted = JobRegressor(n_estimators=10).fit(rows, np.expm1(np.abs(rows[:, 0])), groups=groups)
    others = random.normal(size=(500, 12))
    assert fitted.is_outside(others).mean() < 0.1
    assert fitted.is_outside(others + 10).all()


def test_rounding_of_a_constant_column_makes_no_row_strange() -> None:
    rows, measured = example()
    shares = np.where(np.arange(len(rows)) % 2, 0.6, np.nextafter(0.6, 1.0))
    fitted = JobRegressor(n_estimators=10).fit(np.column_stack([rows, shares]), measured, groups=GROUPS)
    others, _ = example(seed=2)
    beside = np.column_stack([others, np.full(len(others), np.nextafter(np.nextafter(0.6, 1.0), 1.0))])
    assert fitted.model_.distance(beside).max() < 100


def test_fitting_twice_gives_the_same_state() -> None:
    rows, measured = example(factor=2.0)
    states = [
        json.dumps(JobRegressor(n_estimators=10).fit(rows, measured, groups=GROUPS).model_.to_state()) for _ in "ab"
    ]
    assert states[0] == states[1]


def test_stored_correction_predicts_what_the_fitted_one_does() -> None:
    rows, measured = example(factor=np.linspace(0.5, 2, 12)[GROUPS])
    fitted = JobRegressor(n_estimators=10).fit(rows, measured, groups=GROUPS)
    stored = Residual.from_state(json.loads(json.dumps(fitted.model_.to_state())))
    assert stored.median(rows) == pytest.approx(fitted.predict(rows), rel=1e-12)
    assert stored.upper(rows) == pytest.approx(fitted.upper(rows), rel=1e-12)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [("scale", [0.0] * 6, "not positive"), ("center", [0.0], "differ"), ("near", float("nan"), "not finite")],
)
def test_state_that_makes_no_sense_is_refused(key: str, value: object, message: str) -> None:
    rows, measured = example()
    state = JobRegressor(n_estimators=5).fit(rows, measured, groups=GROUPS).model_.to_state()
    with pytest.raises(ValueError, match=message):
        Residual.from_state(state | {key: value})


def test_negative_measurement_is_refused() -> None:
    rows, measured = example()
    with pytest.raises(ValueError, match="negative"):
        JobRegressor(n_estimators=20).fit(rows, measured - 100, groups=GROUPS)


def test_groups_weigh_the_same_in_the_width() -> None:
    missed = np.concatenate([np.zeros(90), np.ones(10)])
    by_row = conformal.width(missed, np.arange(100), level=0.85)
    by_group = conformal.width(missed, np.repeat(np.arange(10), [10] * 9 + [10]), level=0.85)
    small_group_missed = conformal.width(missed, np.concatenate([np.zeros(90, int), np.ones(10, int)]), level=0.85)
    assert (by_row, by_group, small_group_missed) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "fitted",
    [
        RandomForestRegressor(8, random_state=0),
        HistGradientBoostingRegressor(max_iter=20, random_state=0),
    ],
    ids=["forest", "boosting"],
)
def test_exported_trees_predict_what_scikit_learn_does(fitted: RandomForestRegressor) -> None:
    rows, measured = example(seed=11)
    fitted.fit(rows, measured)
    exported = trees.of_forest(fitted) if isinstance(fitted, RandomForestRegressor) else trees.of_boosting(fitted)
    others, _ = example(seed=12)
    stored = Trees.from_state(json.loads(json.dumps(exported.to_state())))
    assert stored.predict(others) == pytest.approx(fitted.predict(others), rel=1e-4)


def test_trees_that_point_outside_of_themselves_are_refused() -> None:
    rows, measured = example()
    state = trees.of_forest(RandomForestRegressor(2, max_depth=2, random_state=0).fit(rows, measured)).to_state()
    with pytest.raises(ValueError, match="points to no node"):
        Trees.from_state(state | {"left": [10**6] * len(state["left"])})
