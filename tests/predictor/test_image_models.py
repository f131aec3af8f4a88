"""Steps of whole image models that others measured: which there are, and that nothing of what is scored is learned."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_predictor import devices
from cotenant_predictor.datasets import shipped, timm
from cotenant_predictor.datasets.timm import Run
from cotenant_predictor.evaluation import image_models, report, run, splits
from cotenant_predictor.models import store

PAGE = Path(__file__).parents[2] / "docs/prediction.md"
BARS = {"training NCHW": 0.85, "training NHWC": 0.85, "inference NCHW": 0.70, "inference NHWC": 0.70}
"""Of the brackets whose median is right on both sides, nothing of the family learned."""
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


def test_what_an_eager_step_keeps_alive_fits_where_it_ran(runs: tuple[Run, ...]) -> None:
    known = devices.load()
    eager = [one for one in runs if not one.row.compiled]
    too_large = {
        one.row.graph_name()
        for one in eager
        if (one.graph.peak_activation_bytes or 0) > known[one.row.gpu_model].memory_mib * 2**20
    }
    assert too_large == set()


def test_a_batch_below_the_largest_says_which_one_did_not_fit() -> None:
    rows = [row for row in timm.published() if row.table == "train-amp-nchw-pt112-cu113-rtx3090"]
    assert {row.fails_at for row in rows if row.batch_size == 512} == {None}
    assert {row.fails_at for row in rows if row.batch_size == 192} == {256}


def test_what_a_kernel_cannot_count_says_nothing_of_memory(runs: tuple[Run, ...]) -> None:
    def of(model: str, table: str) -> Run:
        return next(one for one in runs if one.row.model == model and one.row.table == table)

    old = "infer-amp-nchw-pt240-cu124-rtx3090"
    for model in ("efficientnet_b6", "sam2_hiera_small"):  # a depthwise convolution; attention in windows
        one = of(model, old)
        assert one.row.fails_at is not None
        assert one.fits_until is None
    assert of("efficientnet_b6", "infer-amp-nhwc-pt240-cu124-rtx3090").fits_until == 384
    assert of("resnetv2_50x3_bit", old).fits_until == 1024
    beyond = [one for one in runs if any(most < size for most, size in one._counted())]
    assert {one.row.table for one in beyond if one.fits_until} != set()  # another kernel ran: no limit of theirs


@pytest.mark.parametrize(("name", "models"), [("group_norm", ""), ("layer_norm", "deit")])
def test_norms_run_in_half_precision_in_eager_inference_alone(runs: tuple[Run, ...], name: str, models: str) -> None:
    def types(*, training: bool) -> set[str]:
        return {
            operator.dtype
            for one in runs
            if one.row.training == training and not one.row.compiled and one.row.model.startswith(models)
            for operator in one.graph.operators
            if operator.name == f"aten::native_{name}"
        }

    assert types(training=False) == {"fp16"}
    assert types(training=True) == {"fp32"}


def test_brackets_are_told_as_well_as_is_claimed(runs: tuple[Run, ...]) -> None:
    for kind, bar in BARS.items():
        members = [one for one in runs if image_models._kind(one.row) == kind]
        rows = {(row.model, row.metric): row.value for row in image_models._bracket_rows(kind, members)}
        assert rows["cotenant", "medianRightOnBothSides"] > bar


def test_nothing_is_learned_of_the_family_that_is_scored(runs: tuple[Run, ...]) -> None:
    table = [one for one in runs if one.row.table == "train-amp-nchw-pt112-cu113-rtx3090"]
    part = [one for one in table if one.row.family in {"resnet", "efficientnet", "deit", "swinv"}]
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
    page = PAGE.read_text(encoding="utf-8")
    for table in dict.fromkeys((row.target, row.split) for row in found):
        # A table's last row, of learned rates, is left out: it takes minutes.
        assert "\n".join(report.tables(row for row in found if (row.target, row.split) == table)).strip() in page


def test_the_gpu_that_is_scored_is_not_learned_from(runs: tuple[Run, ...]) -> None:
    part, kernels = runs[::40], store.load().kernels
    assert kernels is not None
    newer = np.array([one.row.gpu_model.endswith("4090") for one in part])
    trains = np.array([one.row.training for one in part])
    spoilt = [
        dataclasses.replace(one, row=dataclasses.replace(one.row, step_seconds=9 * one.row.step_seconds))
        if one.row.gpu_model.endswith("4090")
        else one
        for one in part
    ]
    honest, told = (image_models.learned_rates(given, kernels)[splits.LEAVE_GPU_OUT] for given in (part, spoilt))
    assert told[newer] == pytest.approx(honest[newer])
    assert np.isnan(honest[trains]).all()  # of training one GPU model was measured


def test_the_set_says_itself_what_is_held_out() -> None:
    with pytest.raises(errors.InvalidInputError, match="is no split of timm"):
        run.of_set(shipped.TIMM, run.Request(splits=("random",)))
