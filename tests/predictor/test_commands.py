"""The commands: documents in, documents out, and one clear line for what cannot be used."""

import gzip
import io
import json
import math
import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant_api import cli, errors
from cotenant_api.names import GPUModel
from cotenant_api.prediction import Prediction
from cotenant_predictor import devices
from cotenant_predictor.commands import extract, predict


@pytest.fixture
def graph_file(tmp_path: Path, build: Any) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(build.graph().sealed().to_json(), encoding="utf-8")
    return path


def test_predict_writes_a_prediction_document_a_line(graph_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["predict", str(graph_file), str(graph_file), "--gpu-model", "NVIDIA-H200"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert len(lines) == 2
    prediction = Prediction.from_json(lines[0], source="line")
    assert set(prediction.by_gpu) == {"NVIDIA-H200"}
    assert set(json.loads(lines[0])) == {"v", "graph", "source", "model", "byGPU"}


def test_predict_knows_the_gpu_models_of_a_file(
    graph_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = devices.load()[GPUModel("NVIDIA-H200")].to_object() | {"name": "NVIDIA-H999"}
    file = tmp_path / "more.yaml"
    file.write_text(yaml.safe_dump([row]))
    assert cli.main(["predict", str(graph_file), "--gpu-model", "NVIDIA-H999", "--devices", str(file)]) == 0
    assert set(Prediction.from_json(capsys.readouterr().out, source="line").by_gpu) == {"NVIDIA-H999"}


def test_predict_reads_gzipped_documents(tmp_path: Path, build: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.json.gz"
    path.write_bytes(build.graph().packed())
    assert cli.main(["predict", str(path)]) == 0
    assert len(Prediction.from_json(capsys.readouterr().out, source="line").by_gpu) > 9


def test_predict_reads_standard_input(build: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    stream = io.TextIOWrapper(io.BytesIO(build.graph().to_json().encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert cli.main(["predict", "-", "--gpu-model", "Tesla-T4"]) == 0
    assert "Tesla-T4" in capsys.readouterr().out


def test_predict_reads_a_graph_a_line_and_names_the_line_that_is_wrong(
    tmp_path: Path, build: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    graphs = [build.graph(batch_size=size).sealed() for size in (1, 2)]
    path = tmp_path / "graphs.jsonl"
    path.write_text("".join(graph.to_json() + "\n" for graph in graphs) + "{}\n")
    assert cli.main(["predict", str(path), "--gpu-model", "NVIDIA-H200"]) == 2
    written = capsys.readouterr()
    assert [json.loads(line)["graph"] for line in written.out.splitlines()] == [graph.digest for graph in graphs]
    assert "graphs.jsonl:3" in written.err


def test_predict_reads_lines_from_standard_input(build: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    text = "".join(build.graph(batch_size=size).to_json() + "\n" for size in (1, 2))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert cli.main(["predict", "-", "--gpu-model", "Tesla-T4"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_predict_by_a_model_that_is_missing_names_it(graph_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", str(graph_file), "--model", str(graph_file.parent / "none")]) == 2
    assert "--model" in capsys.readouterr().err


def test_predict_shows_upper_bounds_never_below_themselves(
    graph_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["predict", str(graph_file), "-o", "json"]) == 0
    found = Prediction.from_json(capsys.readouterr().out, source="test").by_gpu
    assert cli.main(["predict", str(graph_file), "-o", "table"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert {row[1]: (row[3], row[5]) for row in rows} == {
        model: (str(math.ceil(one.utilization.upper)), str(math.ceil(one.sm_activity.upper)))
        for model, one in found.items()
    }


def test_predict_shows_a_table_with_the_reason(graph_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", str(graph_file), "-o", "table", "--gpu-model", "NVIDIA-L4"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["GRAPH", "GPU-MODEL"]
    assert row.split()[:2] == ["example", "NVIDIA-L4"]
    assert row.split()[-1] in {"Compute", "Memory", "Launch", "Host"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "must be JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"v":2}', "reads version 1"),
        (b'{"v":1,"name":"x"}', "graph.json.mode"),
        (gzip.compress(b'{"v":1}', mtime=0)[:10], "whole gzip file"),
        (b"\xff\xfe\x00", "must be JSON"),
    ],
)
def test_damaged_graph_is_one_clear_line(
    tmp_path: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.json"
    path.write_bytes(content)
    assert cli.main(["predict", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("content", [b'{"v":1,"mechanism":"MPS"}', b'{"model_type":"bert"}'])
def test_document_of_another_kind_is_told_apart_from_a_damaged_graph(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    assert cli.main(["predict", str(path)]) == 2
    assert "is not a graph document: give what `cotenant extract` wrote" in capsys.readouterr().err


def test_file_without_a_graph_is_an_error_and_not_an_empty_answer(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "graphs.jsonl"
    path.write_bytes(b"\n")
    assert cli.main(["predict", str(path)]) == 2
    assert "holds no graph" in capsys.readouterr().err


def test_missing_graph_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", str(tmp_path / "none.json")]) == 2
    assert "none.json': cannot be read: No such file" in capsys.readouterr().err


def test_unknown_gpu_model_names_the_known_ones(graph_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", str(graph_file), "--gpu-model", "H200"]) == 2
    assert "NVIDIA-H200" in capsys.readouterr().err


def test_commands_import_nothing_heavy_before_they_run() -> None:
    program = (
        "import sys; from cotenant_predictor.commands import evaluate, extract, predict, profile, train; "
        "print({'torch', 'numpy', 'sklearn', 'matplotlib', 'onnx', 'pydantic'} & set(sys.modules))"
    )
    assert _python(program) == "set()"


def test_predicting_imports_neither_torch_nor_sklearn() -> None:
    program = (
        "import sys; from cotenant_predictor.jobs import features, prediction; "
        "print({'torch', 'sklearn'} & set(sys.modules))"
    )
    assert _python(program) == "set()"


def test_extract_asks_for_a_batch_size_of_at_least_one(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser()
    extract.configure(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["module:model", "--batch-size", "0"])
    assert "0 is not 1 or more" in capsys.readouterr().err


def test_callable_is_given_batch_size_and_literals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "given_module.py").write_text(
        "def model(batch_size, **more): return batch_size, more", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    build = extract.build_function("given_module:model", ["depth=50", "kind=large", "sizes=(1, 2)"], batch_size=8)
    assert build() == (8, {"depth": 50, "kind": "large", "sizes": (1, 2)})


def test_callable_that_takes_no_batch_size_is_given_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fixed_module.py").write_text(
        "class A:\n    @staticmethod\n    def model(): return 1", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert extract.build_function("fixed_module:A.model", [], batch_size=8)() == 1


@pytest.mark.parametrize(
    ("target", "values", "message"),
    [
        ("json", [], "must be MODULE:CALLABLE"),
        (":dumps", [], "must be MODULE:CALLABLE"),
        ("no_such_module:model", [], "No module named"),
        ("json:no_such_name", [], "no attribute"),
        ("json:__name__", [], "is a str, not callable"),
        ("json:dumps", ["obj=1", "colour=red", "1x=2"], "must be a name, =, and a Python literal"),
        ("json:loads", ["colour"], "must be a name"),
        ("gzip:compress", ["colour=red"], "takes"),
    ],
)
def test_wrong_target_or_argument_is_refused(target: str, values: list[str], message: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=message):
        extract.build_function(target, values, batch_size=1)


def test_predict_columns_line_up(graph_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser()
    predict.configure(parser)
    predict.run(parser.parse_args([str(graph_file), "-o", "table"]))
    lines = capsys.readouterr().out.splitlines()
    assert {line[lines[0].index("GPU-MODEL") - 1] for line in lines} == {" "}


def _python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ}
    )
    return done.stdout.strip()
