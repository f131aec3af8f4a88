"""Memory of whole jobs that others measured: which there are, and that nothing of what is scored is learned from."""

from pathlib import Path

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_predictor import devices
from cotenant_predictor.datasets import carma, shipped
from cotenant_predictor.evaluation import peaks, report, run, splits
from cotenant_predictor.evaluation.report import Row

PAGE = Path(__file__).parents[2] / "docs/prediction.md"
BAR = 0.08
"""Of the mean relative error."""
MOST_ABOVE = 1 / 41


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return peaks.rows()


def test_every_classifier_and_bert_has_its_graph_and_its_memory() -> None:
    runs = carma.load()
    classifiers = [run for run in runs if run.estimated_mib is not None]
    assert (len(classifiers), len(runs)) == (33, 35)
    assert {run.batch_size for run in classifiers} == {32, 64, 128}
    assert {run.program: run.batch_size for run in runs if run not in classifiers} == carma.BATCHES
    assert all(run.graph.batch_size == run.batch_size and run.graph.peak_activation_bytes for run in runs)
    assert all((run.estimated_mib or 0) < run.memory_mib < 40 * 1024 for run in runs)
    assert carma.GPU_MODEL in devices.load()


def test_values_are_fitted_without_the_group_that_is_scored() -> None:
    columns, groups = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 4.0], [1.0, 8.0]]), ["a", "b", "c", "d"]
    measured = 10 + 3 * columns[:, 1]
    spoilt = measured.copy()
    spoilt[1] *= 100
    honest, told = (peaks._held_out(columns, values, groups) for values in (measured, spoilt))
    assert honest == pytest.approx(measured)
    assert told[1] == honest[1]
    assert told[0] != pytest.approx(honest[0])


def test_memory_is_predicted_as_well_as_is_claimed(rows: list[Row]) -> None:
    found = {(row.split, row.model, row.metric): row.value for row in rows}
    apart = splits.LEAVE_FAMILY_OUT
    assert found[apart, "cotenant", "mape"] < BAR
    assert found[apart, "cotenant", "mape"] < found[apart, "fake-tensors+", "mape"] / 2
    for split, model in ((apart, "cotenant"), (peaks.CHOSEN, "shipped")):
        assert found[split, model, "mape"] < BAR
        assert found[split, model, "underAtSafeBound"] <= MOST_ABOVE


def test_the_page_shows_what_is_found_now(rows: list[Row]) -> None:
    shown = PAGE.read_text(encoding="utf-8")
    assert "\n".join(report.tables(rows)).strip() in shown


def test_nothing_is_learned_from_the_set_so_that_it_has_no_splits() -> None:
    with pytest.raises(errors.InvalidInputError, match="is no split of carma"):
        run.of_set(shipped.CARMA, run.Request(splits=("random",)))
