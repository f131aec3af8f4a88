"""Steps of whole image models that others measured: which there are, and that nothing of what is scored is learned."""

from pathlib import Path

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_predictor import devices
from cotenant_predictor.datasets import shipped, timm
from cotenant_predictor.datasets.timm import Run
from cotenant_predictor.evaluation import image_models, report, run
from cotenant_predictor.models import store

PAGE = Path(__file__).parents[2] / "docs/prediction.md"
NO_PART_OF_TIMM_ANY_MORE = {"ese_vovnet99b_iabn", "regnety_040s_gn"}


@pytest.fixture(scope="module")
def runs() -> tuple[Run, ...]:
    return timm.load()


def test_every_row_of_the_chosen_models_has_its_graph(runs: tuple[Run, ...]) -> None:
    rows = [row for row in timm.published() if timm.chosen(row.model)]
    without = {row.model for row in rows} - {run.row.model for run in runs}
    assert without == NO_PART_OF_TIMM_ANY_MORE
    assert len(runs) == sum(row.model not in without for row in rows)
    for one in runs:
        row, graph = one.row, one.graph
        assert graph.batch_size == row.batch_size
        assert (graph.mode.value == "Training") == row.training
        assert (graph.compiled, graph.channels_last) == (row.compiled, row.channels_last)
        assert row.gpu_model in devices.load()


def test_parameters_are_those_that_were_published(runs: tuple[Run, ...]) -> None:
    ratios = {one.row: one.graph.parameters / (1e6 * one.row.mega_parameters) for one in runs}
    assert np.median(list(ratios.values())) == pytest.approx(1, abs=0.01)
    assert {(row.model, row.table) for row, ratio in ratios.items() if not 0.9 < ratio < 1.1} == set()


def test_attention_is_several_operators_where_torch_had_no_fused_one(runs: tuple[Run, ...]) -> None:
    def classes(*, fused: bool) -> set[str]:
        of_one = [one for one in runs if one.row.model.startswith("deit") and one.row.fused == fused]
        assert of_one
        return {operator.operator_class.value for one in of_one for operator in one.graph.operators}

    assert "attention" in classes(fused=True)
    assert "attention" not in classes(fused=False)


def test_a_batch_below_the_largest_says_which_one_did_not_fit() -> None:
    rows = [row for row in timm.published() if row.table == "train-amp-nchw-pt112-cu113-rtx3090"]
    assert {row.fails_at for row in rows if row.batch_size == 512} == {None}
    assert {row.fails_at for row in rows if row.batch_size == 192} == {256}


def test_nothing_is_learned_of_the_family_that_is_scored(runs: tuple[Run, ...]) -> None:
    part = [one for one in runs if one.row.table == "train-amp-nchw-pt112-cu113-rtx3090"]
    measured = np.array([one.row.step_seconds for one in part])
    family = np.array([one.row.family for one in part]) == "resnet"
    spoilt = np.where(family, 100 * measured, measured)
    for learn in image_models.LEARNERS.values():
        honest, told = (image_models._held_out(part, values, learn) for values in (measured, spoilt))
        assert told[family] == pytest.approx(honest[family])
        assert told[~family] != pytest.approx(honest[~family])


@pytest.mark.parametrize("kind", ["training NCHW", "training NHWC"])
def test_the_page_shows_what_is_found_now(runs: tuple[Run, ...], kind: str) -> None:
    found = image_models.rows_of(kind, runs, store.load().kernels)
    assert "\n".join(report.tables(found)).strip() in PAGE.read_text(encoding="utf-8")


def test_the_set_says_itself_what_is_held_out() -> None:
    with pytest.raises(errors.InvalidInputError, match="is no split of timm"):
        run.of_set(shipped.TIMM, run.Request(splits=("random",)))
