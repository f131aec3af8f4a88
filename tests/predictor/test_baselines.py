"""The published way: its features as its text names them, its grid, its normalisation."""

from typing import Any

import numpy as np
import pytest

from cotenant_api.graph import OperatorClass, Phase
from cotenant_predictor.evaluation import baselines
from cotenant_predictor.training import baselines as learners


def feature(graph: Any, name: str) -> float:
    return float(baselines.hand_features(graph)[baselines.FEATURES.index(name)])


def test_layers_and_flops_are_those_of_the_forward_pass(build: Any) -> None:
    graph = build.graph(
        build.matmul(operator_class=OperatorClass.CONV, flops=100, repeat=3, kernels=1),
        build.matmul(operator_class=OperatorClass.CONV, flops=100, phase=Phase.BACKWARD, kernels=1),
        build.copy(),
        input_bytes_per_step=77,
    )
    assert feature(graph, "layers_conv") == 3
    assert feature(graph, "flops") == 300
    assert feature(graph, "layers_other") == 1
    assert feature(graph, "input_bytes") == 77
    assert feature(graph, "parameters") == 10**6


def test_an_lstm_cell_counts_as_two_linear_layers(build: Any) -> None:
    assert feature(build.graph(build.matmul(operator_class=OperatorClass.RNN)), "layers_linear") == 2


def test_views_are_no_layers_and_activations_are_told_by_name(build: Any) -> None:
    relu = build.copy(operator_class=OperatorClass.ELEMENTWISE, name="aten::relu_")
    add = build.copy(operator_class=OperatorClass.ELEMENTWISE, name="aten::add")
    graph = build.graph(relu, add, build.copy(kernels=0))
    assert (feature(graph, "layers_activation"), feature(graph, "layers_other")) == (1, 1)


def test_the_constant_is_the_best_single_value() -> None:
    measured = np.array([1.0, 3.0, 80.0])
    assert baselines.constant(measured, percent=False) == 3.0
    assert baselines.constant(measured, percent=True) == pytest.approx((2 * 4 * 81) ** (1 / 3) - 1)


@pytest.mark.parametrize("name", learners.NAMES)
def test_a_published_learner_is_deterministic_and_learns(name: str) -> None:
    random = np.random.default_rng(0)
    rows = random.uniform(size=(60, 3)) * [1e12, 1.0, 10.0]
    values = 50 + 40 * np.sign(rows[:, 2] - 5)
    first, again = (learners.fit(name, rows[:48], values[:48]).predict(rows[48:]) for _ in range(2))
    assert first.tolist() == again.tolist()
    assert np.abs(first - values[48:]).mean() < 10


@pytest.mark.parametrize("name", learners.NAMES)
def test_a_published_learner_does_without_a_grid_where_there_are_too_few_rows(name: str) -> None:
    rows = np.arange(8.0)[:, None]
    assert np.isfinite(learners.fit(name, rows, rows[:, 0]).predict(rows)).all()
