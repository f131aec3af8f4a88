"""Evaluation and training of jobs together and of shipped sets, through the commands."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_predictor.commands import evaluate, train
from cotenant_predictor.datasets import joint, measurements
from cotenant_predictor.datasets.miso import Curve
from cotenant_predictor.evaluation import run, slices
from cotenant_predictor.evaluation.run import Request
from cotenant_predictor.models import store
from predictor_kit import synthetic
from predictor_kit.commands import called

pytestmark = pytest.mark.usefixtures("few_trees")

GRAPHS = synthetic.graphs(7, scales=(1,))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [*synthetic.alone(GRAPHS, targets=("memoryPeakMiB",)), *synthetic.pairs(GRAPHS)]
    return synthetic.write(tmp_path_factory.mktemp("data") / "runs.jsonl", GRAPHS, lines)


def test_jobs_alone_and_together_are_both_scored_where_both_are_there(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(evaluate, str(data), "--simulated", "--split", "leave-group-out", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    models = {
        target: {row["model"] for row in rows if row["target"] == target} for target in {r["target"] for r in rows}
    }
    assert {"constant", "physics", "cotenant"} <= models["memoryPeakMiB"]
    assert {"constant", "physics", "kace-lr", "cotenant", "oracle"} <= models["partner"]
    assert {"constant", "physics", "cotenant"} <= models["normalizedSpeed"]
    assert all(row["simulated"] for row in rows)


def test_what_pairs_teach_is_stored_and_what_they_do_not_is_kept(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(train, str(data), "--simulated", "--out", str(tmp_path)) == 0
    model = store.load(tmp_path)
    assert "colocation: MPS from 21 runs, SIMULATED" in capsys.readouterr().out
    assert set(model.colocation.pools) == {"MPS"}
    assert set(model.jobs) == {"memoryPeakMiB"}
    assert (model.kernels is None) == (store.load().kernels is None)


@pytest.mark.parametrize("equal", [True, False])
def test_groups_that_are_families_are_held_out_once(data: Path, equal: bool) -> None:
    found = joint.of_measurements(measurements.load([data], simulated=True)).take(range(8))
    labels = [job.group if equal else "convolutions" for job in found.jobs]
    labels[0] = found.jobs[0].group
    jobs = tuple(dataclasses.replace(job, family=label) for job, label in zip(found.jobs, labels, strict=True))
    rows = run.of_pairs(dataclasses.replace(found, jobs=jobs), Request()).rows
    expected = {"random", "leave-family-out"} | (set() if equal else {"leave-group-out"})
    assert {row.split for row in rows} == expected


def test_slices_that_follow_the_curve_are_predicted_exactly() -> None:
    share = np.array([1, 2, 4, 7]) / 7
    found = [Curve(model=name, batch_size=1, share=share, speed=share.copy(), deviation=share) for name in "ab"]
    rows = {(row.model, row.metric): row.value for row in slices.rows(found=found)}
    assert rows["physics", "mae"] == pytest.approx(0.0)
    assert rows["constant", "mae"] == pytest.approx(0.0)
    assert rows["cotenant", "mae"] < 0.01


def test_a_set_is_evaluated_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(evaluate, "miso") == 0
    assert "| cotenant |" in capsys.readouterr().out


def test_a_split_that_a_set_does_not_have_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="no split of slices"):
        run.of_set("miso", Request(splits=("random",)))
