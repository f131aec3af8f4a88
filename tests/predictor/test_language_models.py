"""The published runs of language models: read whole, spread by documented formulas, scored beside the published."""

import pytest

from cotenant_api.graph import Graph, Mode, Operator, OperatorClass, Phase
from cotenant_predictor import devices
from cotenant_predictor.datasets import language_models as dataset
from cotenant_predictor.datasets.language_models import Spread
from cotenant_predictor.evaluation import language_models as evaluation
from cotenant_predictor.evaluation import spreading

LINK = 1e11
"""Bytes per second."""


def layer() -> Graph:
    """Two normalisations, a widening and a narrowing product of 100 tokens, and what works between them."""
    norm = Operator(
        operator_class=OperatorClass.NORM,
        name="aten::native_layer_norm",
        phase=Phase.FORWARD,
        repeat=2,
        output_elements=100 * 64,
    )
    wide = Operator(
        operator_class=OperatorClass.MATMUL,
        name="aten::mm",
        phase=Phase.FORWARD,
        flops=2 * 100 * 64 * 256,
        output_elements=100 * 256,
        dims={"b": 1, "m": 100, "k": 64, "n": 256},
    )
    narrow = wide.model_copy(update={"dims": {"b": 1, "m": 100, "k": 256, "n": 64}, "output_elements": 100 * 64})
    curve = Operator(
        operator_class=OperatorClass.ELEMENTWISE, name="aten::gelu", phase=Phase.FORWARD, output_elements=100 * 256
    )
    return Graph(
        name="layer",
        mode=Mode.TRAINING,
        batch_size=1,
        parameters=32_768,
        parameter_bytes=131_072,
        operators=(norm, wide, curve, narrow),
    )


def test_every_published_run_has_its_graph_and_gpu() -> None:
    runs = dataset.load()
    assert len(runs) == 146
    assert sum(run.unseen for run in runs) == 90
    assert all(run.graph.batch_size <= run.batch and run.milliseconds > 0 for run in runs)
    assert all((run.graph.mode.value == "Training") == (run.mode == "train") for run in runs)


def test_compiled_runs_have_compiled_graphs() -> None:
    assert all(run.graph.compiled == run.compiled for run in dataset.load())


def test_whole_samples_are_divided_among_gpus() -> None:
    runs = [run for run in dataset.load() if run.spread is not None and run.spread.strategy == "dp"]
    assert runs
    assert all(run.graph.batch_size * 4 == run.batch for run in runs)


def test_links_are_known_of_every_gpu_that_shares_a_job() -> None:
    assert {str(run.device.name) for run in dataset.load() if run.spread is not None} <= set(dataset.links())


def test_no_gpu_of_the_evaluation_alone_is_offered_for_jobs() -> None:
    assert not any("AMD" in name for name in devices.load())


def test_a_layer_is_divided_where_it_is_wide() -> None:
    norm, wide, curve, narrow = spreading.part(layer(), Spread(strategy="tp", gpus=4)).operators
    assert norm.output_elements == 100 * 64
    assert wide.dims == {"b": 1, "m": 100, "k": 64, "n": 64}
    assert curve.output_elements == 100 * 64
    assert narrow.dims == {"b": 1, "m": 100, "k": 64, "n": 64}
    assert wide.flops == layer().operators[1].flops // 4


def test_other_strategies_leave_the_graph_as_it_is() -> None:
    graph = layer()
    assert spreading.part(graph, Spread(strategy="dp", gpus=4)) is graph


@pytest.mark.parametrize(
    ("strategy", "sent_bytes"),
    [("dp", 1.5 * 131_072), ("tp", 1 * 4 * 1.5 * 25_600), ("pp", 6 * 25_600)],
)
def test_what_gpus_send_each_other_follows_from_the_graph(strategy: str, sent_bytes: float) -> None:
    spread = Spread(strategy=strategy, gpus=4)
    seconds = spreading.exchange_seconds(layer(), spread, link_bytes_per_second=LINK)
    assert seconds == pytest.approx(sent_bytes / (LINK * spreading.LINK_EFFICIENCY))


@pytest.mark.parametrize(("micro_batches", "share"), [(1, 1.0), (4, 7 / 16)])
def test_more_micro_batches_fill_the_pipeline(micro_batches: int, share: float) -> None:
    assert spreading.busy_share(Spread(strategy="pp", gpus=4, micro_batches=micro_batches)) == share


def test_published_errors_are_what_was_published() -> None:
    whole = {(row.split, row.model): row for row in evaluation.rows() if row.group is None}
    neusight = whole[evaluation.UNSEEN, "neusight"]
    assert neusight.n == 90
    assert neusight.value == pytest.approx(0.0782, abs=5e-5)
    assert ("published-unseen", "cotenant") not in whole


def test_every_gpu_has_a_row() -> None:
    rows = evaluation.rows()
    gpus = {row.group for row in rows if row.model == "physics" and row.split == evaluation.ALL}
    assert len(gpus - {None}) == 12
