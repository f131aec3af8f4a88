"""Times, activities and energy of one step, and what a learner sees of them."""

from typing import Any

import numpy as np
import pytest

from cotenant_api.graph import Distributed, Graph, Host, Inference, Mode
from cotenant_api.prediction import Regime
from cotenant_predictor import devices
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import features
from cotenant_predictor.jobs import step as steps
from cotenant_predictor.jobs.coefficients import FORMULA_1

SOME = devices.select(["NVIDIA-H200", "Tesla-T4"])


def test_replicas_exchange_their_gradients_over_the_slower_link(build: Any, h200: Device) -> None:
    graph = build.graph(distributed=Distributed(replicas=4, gradient_bytes=10**9))
    step = steps.of(graph, [h200])
    assert step.exchange_seconds[0] == pytest.approx(1.5 * 1e9 / FORMULA_1.network_bytes_per_second)


def test_exchange_that_takes_longest_bounds_the_step_and_lowers_utilization(build: Any, h200: Device) -> None:
    alone = steps.of(build.graph(), [h200])
    spread = steps.of(build.graph(distributed=Distributed(replicas=8, gradient_bytes=10**11)), [h200])
    assert spread.step_seconds[0] == spread.exchange_seconds[0] > alone.step_seconds[0]
    assert spread.utilization[0] < alone.utilization[0]
    assert spread.regime(0) is Regime.HOST


@pytest.mark.parametrize("mode", [Mode.TRAINING, Mode.INFERENCE])
def test_one_replica_or_inference_exchanges_nothing(build: Any, h200: Device, mode: Mode) -> None:
    replicas = 1 if mode is Mode.TRAINING else 4
    graph = build.graph(mode=mode, distributed=Distributed(replicas=replicas, gradient_bytes=10**9))
    assert steps.of(graph, [h200]).exchange_seconds[0] == 0


def test_streaming_step_keeps_memory_busy_all_the_time(build: Any, h200: Device) -> None:
    step = steps.of(build.graph(build.copy(moved=10**10)), [h200])
    assert step.memory_utilization[0] == pytest.approx(100)
    assert step.dram_activity[0] == pytest.approx(100 * FORMULA_1.rates.streaming)


def test_power_lies_between_idle_and_the_limit(build: Any, h200: Device) -> None:
    idle = steps.of(build.graph(host=Host(samples_per_second=1e-3)), [h200]).power_watts[0]
    full = steps.of(build.graph(), [h200]).power_watts[0]
    assert idle == pytest.approx(h200.power_watts * FORMULA_1.idle_power_share, rel=0.01)
    assert idle < full <= h200.power_watts


def test_few_requests_lower_every_activity_alike(build: Any, h200: Device) -> None:
    busy = steps.of(build.graph(mode=Mode.INFERENCE), [h200])
    rate = 0.25 * 64 / busy.step_seconds[0]
    asked = steps.of(build.graph(mode=Mode.INFERENCE, inference=Inference(requests_per_second=rate)), [h200])
    assert asked.duty[0] == pytest.approx(0.25)
    assert asked.utilization[0] == pytest.approx(busy.utilization[0] / 4)
    assert asked.sm_activity[0] == pytest.approx(busy.sm_activity[0] / 4)
    assert asked.step_seconds[0] == busy.step_seconds[0]


def test_features_are_finite_and_named(build: Any) -> None:
    graph = build.graph(build.matmul(), build.copy(), host=Host(loader_workers=4))
    rows = features.rows_of(steps.of(graph, SOME))
    assert rows.shape == (2, len(features.NAMES))
    assert np.isfinite(rows).all()
    assert len(set(features.NAMES)) == len(features.NAMES)


def test_first_features_are_the_logarithms_of_the_estimates(build: Any) -> None:
    step = steps.of(build.graph(), SOME)
    expected = np.column_stack([np.log1p(value) for value in features.estimates(step).values()])
    assert features.rows_of(step)[:, : len(features.TARGETS)] == pytest.approx(expected)
    assert tuple(features.estimates(step)) == features.TARGETS


def test_features_do_not_depend_on_the_order_of_operators(build: Any) -> None:
    chosen = (build.matmul(), build.copy(), build.copy(moved=100, repeat=50))
    one, other = build.graph(*chosen), build.graph(*chosen[::-1])
    assert features.rows_of(steps.of(one, SOME)) == pytest.approx(features.rows_of(steps.of(other, SOME)), rel=1e-9)


def test_graph_of_views_alone_has_finite_features(build: Any, h200: Device) -> None:
    graph: Graph = build.graph(build.copy(moved=0, kernels=0), parameters=0)
    assert np.isfinite(features.rows_of(steps.of(graph, [h200]))).all()
