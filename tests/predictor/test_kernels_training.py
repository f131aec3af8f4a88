"""Learning the times of kernels: an estimator as scikit-learn wants them, the same each time, better than a guess."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cotenant_predictor.datasets import kernels as dataset
from cotenant_predictor.evaluation import kernels as evaluation
from cotenant_predictor.kernels import model, products
from cotenant_predictor.kernels.model import Family
from cotenant_predictor.training import kernels as training
from cotenant_predictor.training.kernels import KernelLatencyRegressor

QUICK: dict[str, Any] = {"rows_per_chip": 60, "max_sweeps": 1, "n_estimators": 5}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [KernelLatencyRegressor(rows_per_chip=20, max_sweeps=1, n_estimators=2)]
)
def test_the_estimator_is_one_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_all_published_kernels_are_read() -> None:
    found = dataset.load()
    assert {name: len(of.seconds) for name, of in found.items()} == {"linear": 32224, "bmm": 87623, "conv": 24662}
    assert all(len(of.devices) == 5 for of in found.values())
    assert all((of.seconds > 0).all() and np.isfinite(of.matrix()).all() for of in found.values())


@pytest.mark.parametrize("family", model.FAMILIES)
def test_rows_of_the_matrix_are_shapes_and_gpus_again(family: str) -> None:
    data = dataset.load()[family]
    shapes, gpus = training.unpacked(family, data.matrix()[:50])
    assert (training.unpacked(family, data.matrix())[1].feed[:50] == gpus.feed).all()
    assert (model.rows_of(shapes) == model.rows_of(data.shapes)[:50]).all()


def small(family: str = "linear", gpus: int = 3, rows: int = 150) -> tuple[Any, Any]:
    """Rows whose time follows the physics, but for a third more where there are few columns."""
    data = dataset.load()[family]
    keep = np.concatenate([np.flatnonzero(data.device_index == gpu)[:rows] for gpu in range(gpus)])
    matrix = data.matrix()[keep]
    shapes, chips = training.unpacked(family, matrix)
    truth = Family(physics=products.Physics(efficiency=0.7, overhead_seconds=3e-5)).benchmark_seconds(shapes, chips)
    assert isinstance(shapes, products.Products)
    return matrix, truth * np.where(shapes.columns < 500, 1.33, 1.0)


def test_it_finds_the_physics_behind_the_rows() -> None:
    matrix, seconds = small()
    fitted = KernelLatencyRegressor(max_sweeps=3).fit(matrix, seconds)
    assert np.mean(np.abs(fitted.predict(matrix) / seconds - 1)) < 0.1
    assert fitted.model_.physics.efficiency == pytest.approx(0.7, rel=0.15)


def test_the_same_rows_teach_the_same() -> None:
    matrix, seconds = small(rows=80)
    first, second = (KernelLatencyRegressor(**QUICK).fit(matrix, seconds).model_.to_state() for _ in range(2))
    assert first == second


def test_what_was_learned_is_stored_exactly() -> None:
    matrix, seconds = small(rows=80)
    learned = KernelLatencyRegressor(**QUICK).fit(matrix, seconds)
    again = model.family_of("linear", learned.model_.to_state())
    shapes, chips = training.unpacked("linear", matrix)
    assert (again.benchmark_seconds(shapes, chips) == learned.predict(matrix)).all()


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match="linear, bmm, conv"):
        KernelLatencyRegressor(family="fft").fit([[1.0], [2.0]], [1.0, 2.0])


def test_a_roofline_is_a_lower_bound_of_products() -> None:
    data = dataset.load()["linear"]
    assert np.mean(evaluation.roofline_seconds(data) > data.seconds) < 0.01


def test_a_fold_holds_out_a_whole_gpu() -> None:
    data = dataset.load()["conv"]
    for name, train, test in evaluation.folds(data, evaluation.LEAVE_GPU_OUT):
        held = {data.devices[index].name for index in np.unique(data.device_index[test])}
        assert held == {name}
        assert not held & {data.devices[index].name for index in np.unique(data.device_index[train])}


def test_random_shapes_are_held_out_on_every_gpu() -> None:
    data = dataset.load()["linear"]
    ((_, train, test),) = evaluation.folds(data, evaluation.RANDOM)
    seen = {tuple(row) for row in model.rows_of(data.shapes)[train]}
    assert not any(tuple(row) in seen for row in model.rows_of(data.shapes)[test][:200])
    assert len(np.unique(data.device_index[test])) == 5


def test_scores_have_a_row_of_all_gpus_and_one_of_each() -> None:
    data = dataset.load()["conv"]
    few = np.concatenate([np.flatnonzero(data.device_index == gpu)[:40] for gpu in range(5)])
    shapes = data.shapes.take(few) if hasattr(data.shapes, "take") else data.shapes
    data = dataclasses.replace(data, device_index=data.device_index[few], seconds=data.seconds[few], shapes=shapes)
    quick = KernelLatencyRegressor(family="conv", **QUICK)
    rows = list(evaluation.rows_of(data, evaluation.LEAVE_GPU_OUT, regressor=quick))
    assert {row.model for row in rows} == {"constant", "roofline", "physics", "cotenant"}
    whole = [row for row in rows if row.group is None]
    assert all(row.n == 200 and row.low <= row.value <= row.high for row in whole)
    assert len(rows) == 4 * 6
