"""Evaluation as a command: the agreed rows, honest labels, and a model that finds synthetic data's hidden truth."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_api.measurement import Outcome
from cotenant_predictor.commands import evaluate
from cotenant_predictor.datasets import measurements
from cotenant_predictor.evaluation import curves, jobs, run
from cotenant_predictor.evaluation.run import Request
from cotenant_predictor.evaluation.scores import Predicted, Scored, rows_of
from predictor_kit import synthetic
from predictor_kit.commands import called

pytestmark = pytest.mark.usefixtures("few_trees")

GRAPHS = synthetic.graphs(5, scales=(1, 2, 4))
FORMULAS = {"physics", "physics-kernels"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = list(synthetic.alone(GRAPHS, targets=("utilization", "memoryPeakMiB")))
    return synthetic.write(tmp_path_factory.mktemp("data") / "runs.jsonl", GRAPHS, lines)


@pytest.fixture(scope="module")
def alone(data: Path) -> measurements.Measurements:
    return measurements.load([data], simulated=True).alone()


@pytest.fixture(scope="module")
def found(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One evaluation of one split, with everything that a call can ask for."""
    folder = tmp_path_factory.mktemp("plots")
    document = folder / "page.md"
    command = f"cotenant evaluate {data} --split leave-gpu-out"
    document.write_text(f"Before\n<!-- begin: {command} -->\nold\n<!-- end: {command} -->\nAfter\n")
    out = folder / "out.json"
    argv = ["--simulated", "--split", "leave-gpu-out", "--plots", str(folder), "--json"]
    with out.open("w") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", file)
        assert called(evaluate, str(data), *argv, "--write", str(document)) == 0
    return {"rows": json.loads(out.read_text())["rows"], "folder": folder, "page": document.read_text()}


def values(rows: list[dict[str, Any]], **wanted: str) -> dict[str, float]:
    """Values by model of the rows over all groups that have these keys."""
    chosen = [row for row in rows if not {"group", "trainingRows"} & set(row)]
    return {row["model"]: row["value"] for row in chosen if wanted.items() <= row.items()}


def test_rows_have_the_agreed_keys_and_say_that_they_are_simulated(found: dict[str, Any]) -> None:
    plain = {"target", "split", "model", "metric", "value", "low", "high", "n"}
    for row in found["rows"]:
        assert plain <= set(row) <= plain | {"group", "worst", "trainingRows", "simulated"}
        assert row["simulated"] is True


def test_every_report_has_the_constant_the_physics_and_the_published_rows(found: dict[str, Any]) -> None:
    assert set(values(found["rows"], target="utilization", metric="rmsle")) == {
        "constant",
        "horus-rf",
        "horus-gbm",
        "cotenant",
        *FORMULAS,
    }
    assert set(values(found["rows"], target="memoryPeakMiB", metric="mape")) == {"constant", "cotenant", *FORMULAS}


@pytest.mark.parametrize(
    ("target", "metrics"),
    [
        ("utilization", {"rmsle", "mae", "underBy5Points", "coverage", "worstGroupCoverage", "overReservationPoints"}),
        ("memoryPeakMiB", {"mape", "mdape", "underAtSafeBound", "coverage", "overReservationFactor"}),
    ],
)
def test_a_target_is_judged_by_what_matters_for_it(found: dict[str, Any], target: str, metrics: set[str]) -> None:
    rows = [row for row in found["rows"] if row["target"] == target and row["model"] == "cotenant"]
    assert metrics <= {row["metric"] for row in rows}


def test_intervals_hold_the_value(found: dict[str, Any]) -> None:
    for row in found["rows"]:
        if row["metric"] in {"rmsle", "mae", "mape"}:
            assert row["low"] <= row["value"] * (1 + 1e-6)
            assert row["value"] <= row["high"] * (1 + 1e-6)


def test_a_held_out_gpu_has_a_row_of_its_own(found: dict[str, Any]) -> None:
    assert {row["group"] for row in found["rows"] if "group" in row} == set(synthetic.GPU_MODELS)


def test_the_learning_curve_has_score_and_fit_time_by_training_rows(alone: measurements.Measurements) -> None:
    ticks = itertools.count()
    bench = jobs.bench_of(alone)
    rows = curves.rows(bench, "leave-gpu-out", "memoryPeakMiB", clock=lambda: float(next(ticks)))
    curve = [(row.model, row.metric, row.training_rows) for row in rows]
    assert [entry for entry in curve if entry[0] == "cotenant"] == [
        ("cotenant", "mape", 8),
        ("cotenant", "fitSeconds", 8),
        ("cotenant", "mape", 15),
        ("cotenant", "fitSeconds", 15),
    ]
    assert {row.value for row in rows if row.metric == "fitSeconds"} == {1.0}


def test_pictures_are_drawn_as_svg_and_png(found: dict[str, Any]) -> None:
    names = {path.name for path in found["folder"].iterdir()}
    for picture in ("predicted", "calibration", "regimes"):
        assert {f"utilization-leave-gpu-out-{picture}.{suffix}" for suffix in ("svg", "png")} <= names


def test_tables_go_between_the_markers_that_name_the_call(found: dict[str, Any]) -> None:
    page = found["page"]
    assert page.startswith("Before\n<!-- begin: cotenant evaluate")
    assert page.endswith("-->\nAfter\n")
    assert "old" not in page
    assert "**utilization**, leave-gpu-out (simulated)" in page


def test_the_model_finds_the_hidden_factor_of_known_architectures(alone: measurements.Measurements) -> None:
    bench = jobs.bench_of(alone)
    scored = {one.model: one for one in jobs.evaluate(bench, "random", "memoryPeakMiB")}
    errors_of = {
        name: next(row.value for row in rows_of(one, max_groups=0) if row.metric == "mape")
        for name, one in scored.items()
    }
    assert errors_of["cotenant"] < 0.5 * errors_of["physics"] < errors_of["constant"]


def test_without_a_wish_every_split_is_made_that_the_data_allow(alone: measurements.Measurements) -> None:
    one_gpu = alone.where(lambda record: record.gpu_model == synthetic.GPU_MODELS[0])
    told: list[str] = []
    found = run.of_jobs(one_gpu, Request(targets=("memoryPeakMiB",)), progress=told.append)
    assert {row.split for row in found.rows} == {"random", "leave-group-out", "leave-family-out"}
    assert any("no leave-gpu-out" in line for line in told)


def test_a_split_that_was_asked_for_and_cannot_be_made_is_an_error(alone: measurements.Measurements) -> None:
    one_gpu = alone.where(lambda record: record.gpu_model == synthetic.GPU_MODELS[0])
    with pytest.raises(errors.InvalidInputError, match=r"leave-gpu-out.*at least 2 labels"):
        run.of_jobs(one_gpu, Request(splits=("leave-gpu-out",), targets=("memoryPeakMiB",)))


def test_a_target_that_was_not_measured_is_an_error(alone: measurements.Measurements) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"--target.*powerWatts.*at least 8 lines"):
        run.of_jobs(alone, Request(targets=("powerWatts",)))


def test_jobs_out_of_memory_are_asked_about_but_not_learned_from(alone: measurements.Measurements) -> None:
    failed = tuple(
        record.model_copy(update={"outcome": Outcome.OUT_OF_MEMORY, "memory_limit_mib": 100})
        if index % 5 == 0
        else record
        for index, record in enumerate(alone.records)
    )
    some = measurements.Measurements(records=failed, graphs=alone.graphs)
    for fold in jobs.folds_of(some, "leave-group-out", "memoryPeakMiB"):
        assert np.isfinite(some.values("memoryPeakMiB")[fold.train]).all()
    bench = jobs.bench_of(some)
    rows = [row for one in jobs.evaluate(bench, "leave-gpu-out", "memoryPeakMiB") for row in rows_of(one, max_groups=0)]
    foreseen = {row.model: row.value for row in rows if row.metric == "outOfMemoryForeseen"}
    assert foreseen == {"physics": 1.0, "cotenant": 1.0}


def test_the_worst_group_is_named_and_groups_of_few_rows_do_not_count() -> None:
    groups = ("big",) * 6 + ("small",) + ("bad",) * 6
    measured = np.array([10.0] * 6 + [99.0] + [60.0] * 6)
    scored = Scored(
        target="utilization",
        split="random",
        model="cotenant",
        measured=measured,
        floor=np.full(13, np.nan),
        capacity=np.full(13, 100.0),
        predicted=Predicted(median=np.full(13, 20.0), upper=np.full(13, 50.0)),
        groups=groups,
        held_out=("shuffle 0",) * 13,
        regimes=("Host",) * 13,
    )
    worst = next(row for row in rows_of(scored, max_groups=9) if row.metric == "worstGroupCoverage")
    assert (worst.worst, worst.value, worst.n) == ("bad", 0.0, 6)


def test_tables_are_refused_where_the_page_has_no_place_for_them(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    argv = ["--simulated", "--split", "leave-gpu-out", "--target", "memoryPeakMiB", "--write", str(page)]
    assert called(evaluate, str(data), *argv) == 1
    written = capsys.readouterr().err
    assert "must hold the lines <!-- begin: cotenant evaluate" in written
    assert "folds" not in written
    assert page.read_text() == "nothing\n"


def test_what_is_no_data_is_refused_with_the_shipped_sets(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(evaluate, "no-such-set") == 1
    assert "the sets are kernels" in capsys.readouterr().err
