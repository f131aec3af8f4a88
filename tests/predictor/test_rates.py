"""Rates of whole models: what they change, what measured steps teach of them, and what does not."""

import dataclasses

import numpy as np
import pytest

from cotenant_api.graph import Graph
from cotenant_predictor import devices
from cotenant_predictor.datasets import timm
from cotenant_predictor.datasets.timm import Run
from cotenant_predictor.jobs import coefficients, prediction
from cotenant_predictor.jobs import rates as shares
from cotenant_predictor.jobs.rates import Rates
from cotenant_predictor.models import store
from cotenant_predictor.models.store import Model
from cotenant_predictor.training import rates as training

TAUGHT = Rates(
    convolution=1.1,
    grouped=0.7,
    grouped_gradient=0.5,
    grouped_gradient_channels_last=0.07,
    streaming=0.85,
    depthwise=0.7,
    depthwise_gradient=0.25,
    depthwise_channels_last=0.6,
    depthwise_gradient_channels_last=0.3,
    batch_norm_training=0.7,
    converted=0.4,
    converted_gradient=0.2,
    converted_grouped=0.4,
    cache=1.0,
)


@pytest.fixture(scope="module")
def runs() -> tuple[Run, ...]:
    """Some of each table."""
    return timm.load()[::11]


@pytest.fixture(scope="module")
def steps(runs: tuple[Run, ...]) -> training.Steps:
    return training.steps_of(runs, store.load().kernels)


def milliseconds(graph: Graph, gpu: str, rates: Rates) -> float:
    """As a prediction has it."""
    model = dataclasses.replace(store.load(), rates=rates)
    (found,) = prediction.predict(graph, devices.select([gpu]), knowledge=model.knowledge()).by_gpu.values()
    return found.step_milliseconds


def test_steps_side_by_side_take_as_long_as_each_alone(runs: tuple[Run, ...], steps: training.Steps) -> None:
    together = 1e3 * steps.seconds(TAUGHT)
    for index in range(0, len(runs), 17):
        run = runs[index]
        alone = milliseconds(run.graph, run.row.gpu_model, TAUGHT)
        assert together[index] == pytest.approx(alone, rel=0.01), run.row.graph_name()


def test_what_steps_were_made_with_is_found_again(steps: training.Steps) -> None:
    found = training.fitted(steps, steps.seconds(TAUGHT)).to_state()
    assert found == pytest.approx(TAUGHT.to_state(), rel=0.2)


def test_what_is_left_out_teaches_nothing_and_few_wrong_steps_teach_little(steps: training.Steps) -> None:
    seconds, keep = steps.seconds(TAUGHT), np.arange(steps.count) % 2 == 0
    honest = training.fitted(steps, seconds, keep=keep)
    assert training.fitted(steps, np.where(keep, seconds, 100 * seconds), keep=keep) == honest
    wrong = np.where(np.arange(steps.count) % 40 == 0, 3 * seconds, seconds)
    assert training.fitted(steps, wrong, keep=keep).streaming == pytest.approx(honest.streaming, rel=0.1)


def test_a_rate_that_nothing_measured_stays_as_assumed(runs: tuple[Run, ...], steps: training.Steps) -> None:
    inference = np.array([not run.row.training for run in runs])
    found = training.fitted(steps, steps.seconds(TAUGHT), keep=inference)
    assert found.batch_norm_training == pytest.approx(training.PRIOR.batch_norm_training)
    assert found.depthwise_gradient == pytest.approx(training.PRIOR.depthwise_gradient)


def test_the_layout_counts_on_tensor_cores_alone(runs: tuple[Run, ...]) -> None:
    graph = next(run.graph for run in runs if run.row.model.startswith("resnet") and not run.row.compiled)
    beside, apart = (graph.model_copy(update={"channels_last": last}) for last in (True, False))
    gpu = "NVIDIA-GeForce-RTX-3090"
    assert milliseconds(beside, gpu, TAUGHT) < 0.95 * milliseconds(apart, gpu, TAUGHT)
    assert milliseconds(beside, gpu, shares.FORMULA_1) == milliseconds(apart, gpu, shares.FORMULA_1)
    old = "Tesla-P4"
    assert milliseconds(beside, old, TAUGHT) == milliseconds(apart, old, TAUGHT)


def test_a_larger_cache_leaves_less_to_move(runs: tuple[Run, ...]) -> None:
    graph, gpu = runs[0].graph, "NVIDIA-GeForce-RTX-4090"
    without = dataclasses.replace(TAUGHT, cache=0.0)
    assert milliseconds(graph, gpu, TAUGHT) < milliseconds(graph, gpu, without)


def test_rates_are_kept_with_a_model_and_checked() -> None:
    model = Model(name="test-1", rates=TAUGHT)
    read = store.parse(model.to_bytes(), source="m")
    assert read.rates == TAUGHT
    assert read.knowledge().coefficients.rates == TAUGHT
    assert Model(name="test-1").knowledge().coefficients is coefficients.FORMULA_1
    with pytest.raises(ValueError, match="rates: streaming must be above 0"):
        Rates.from_state(TAUGHT.to_state() | {"streaming": 0.0})
