"""Training as a command: the same data give the same bytes, and what was learned is said."""

import json
from pathlib import Path

import numpy as np
import pytest

from cotenant_predictor.commands import train
from cotenant_predictor.datasets import measurements
from cotenant_predictor.models import store
from cotenant_predictor.training import run, table
from predictor_kit import synthetic
from predictor_kit.commands import called

GRAPHS = synthetic.graphs(6, scales=(1, 2))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = list(synthetic.alone(GRAPHS, targets=("utilization", "memoryPeakMiB")))
    return synthetic.write(tmp_path_factory.mktemp("data") / "runs.jsonl", GRAPHS, lines)


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model")
    assert called(train, str(data), "--simulated", "--out", str(out), "--name", "mine-1") == 0
    return out


def test_training_twice_gives_the_same_bytes(data: Path, trained: Path, tmp_path: Path) -> None:
    shuffled = data.read_text().splitlines()
    again = tmp_path / "shuffled.jsonl"
    again.write_text("\n".join(reversed(shuffled)))
    assert called(train, str(again), "--simulated", "--out", str(tmp_path), "--name", "mine-1") == 0
    assert (tmp_path / store.FILE).read_bytes() == (trained / store.FILE).read_bytes()


def test_a_model_read_back_predicts_what_training_learned(data: Path, trained: Path) -> None:
    alone = measurements.load([data], simulated=True).alone()
    rows = table.of(alone, knowledge=store.load().kernel_knowledge())
    learned = run.guarded(rows, "utilization", np.arange(len(alone)))
    assert learned is not None
    read = store.load(trained).jobs["utilization"]
    formula = {"median": rows.medians["utilization"], "upper": rows.uppers["utilization"]}
    found, expected = read.of(rows.rows, **formula), learned.of(rows.rows, **formula)
    assert found.median.tolist() == expected.median.tolist()
    assert found.upper.tolist() == expected.upper.tolist()


def test_a_model_says_what_it_was_learned_from_and_that_it_was_simulated(trained: Path) -> None:
    model = store.load(trained)
    assert model.name == "mine-1"
    assert model.simulated
    assert model.knowledge().name == f"simulated-mine-1@{model.digest}"
    assert model.learned["lines"] == len(GRAPHS) * len(synthetic.GPU_MODELS)
    assert set(model.jobs) == {"utilization", "memoryPeakMiB"}
    assert model.learned["jobs"]["utilization"] == {"rows": 24, "groups": 5, "gpuModels": 2}


def test_the_command_says_what_was_learned_and_from_how_many_rows(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called(train, str(data), "--simulated", "--out", str(tmp_path))
    out = capsys.readouterr().out.splitlines()
    assert "jobs: utilization from 24 rows, 5 groups, 2 GPU models, SIMULATED" in out
    assert out[-1] == f"wrote {tmp_path / store.FILE}: {store.load(tmp_path).reference}"


def test_simulated_data_are_refused_unless_asked_for_and_nothing_is_written(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(train, str(data), "--out", str(tmp_path / "out")) == 1
    assert "--simulated" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def bad_lines(folder: Path) -> Path:
    """Good lines, and one of each kind that cannot be used."""
    good = list(synthetic.alone(GRAPHS, targets=("utilization", "memoryPeakMiB")))
    first = good[0].to_object()
    slow = GRAPHS[0].host.model_copy(update={"samples_per_second": 5e-324})
    endless = GRAPHS[0].model_copy(update={"host": slow, "digest": ""}).sealed()
    bad = [
        "nonsense",
        '{"v":1}',
        json.dumps(first | {"id": "gpu", "gpuModel": "NVIDIA-Unheard-Of"}),
        json.dumps(first | {"id": "graph", "graph": "sha256:00"}),
        json.dumps(first | {"id": "real", "simulated": False}),
        json.dumps(first | {"id": "busy", "namespace": "team", "values": first["values"] | {"utilization": 101}}),
        json.dumps(first | {"id": "big", "namespace": "team", "values": first["values"] | {"memoryPeakMiB": 10**9}}),
        good[0].to_json(),
        endless.to_json(),
        json.dumps(first | {"id": "endless", "graph": endless.digest}),
    ]
    file = synthetic.write(folder / "bad.jsonl", GRAPHS, good)
    file.write_text(file.read_text() + "\n".join(bad))
    return file


def test_lines_that_cannot_be_used_are_skipped_and_counted_where_asked_for(
    tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (str(bad_lines(tmp_path)), "--simulated", "--out", str(tmp_path), "--name", "mine-1")
    assert called(train, *options) == 1
    capsys.readouterr()
    assert called(train, *options, "--skip-bad-lines") == 0
    written = capsys.readouterr()
    assert "skipped: 9 lines, runs and graphs that cannot be used" in written.out.splitlines()
    for field in ("bad.jsonl:13", "gpuModel: ", "values.utilization: ", "values.memoryPeakMiB: "):
        assert field in written.err
    assert store.load(tmp_path).jobs.keys() == store.load(trained).jobs.keys()
    assert (tmp_path / store.FILE).read_bytes() == (trained / store.FILE).read_bytes()


def test_a_night_of_bad_lines_alone_is_a_night_without_a_better_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text("nonsense\n")
    options = (str(file), "--out", str(tmp_path / "out"), "--skip-bad-lines")
    assert called(train, *options, "--only-if-better") == train.NOT_BETTER
    assert "skipped: 1 lines" in capsys.readouterr().out
    assert called(train, *options) == 1


def test_too_few_rows_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(synthetic.alone(GRAPHS[:1]))
    few = synthetic.write(tmp_path / "few.jsonl", GRAPHS[:1], lines)
    assert called(train, str(few), "--simulated", "--out", str(tmp_path / "out")) == 1
    assert "needs 8 lines" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a@b", "two words", ""])
def test_a_name_that_a_reference_cannot_hold_is_refused(
    data: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(train, str(data), "--simulated", "--out", str(tmp_path / "model"), "--name", name) == 1
    assert "--name" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_a_folder_that_cannot_be_made_is_known_before_learning(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert called(train, str(data), "--simulated", "--out", str(tmp_path / "file" / "model")) == 1
    written = capsys.readouterr().err
    assert "cannot be made" in written
    assert "learning" not in written


def test_a_model_file_is_plain_json(trained: Path) -> None:
    value = json.loads((trained / store.FILE).read_text(encoding="utf-8"))
    assert {"v", "name", "digest", "learned", "parts"} == set(value)
