"""`cotenant extract FILE.onnx`: a document that `cotenant predict` reads, or one line that says what is wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_api import cli
from cotenant_api.graph import Graph, Mode
from cotenant_predictor import devices
from cotenant_predictor.jobs import prediction
from predictor_kit.onnx_models import model, node, weight


@pytest.fixture
def file(tmp_path: Path) -> Path:
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "y")]
    path = tmp_path / "perceptron.onnx"
    path.write_bytes(model(nodes, {"x": ["batch", "rows", 64]}, [weight("w", [64, 10])]).SerializeToString())
    return path


def test_document_is_written_and_predicted(file: Path) -> None:
    output = file.with_name("graph.json.gz")
    arguments = ["--batch-size", "8", "--mode", "Inference", "--input-shape", "x=8,3,64", "--output", str(output)]
    assert cli.main(["extract", str(file), *arguments]) == 0
    graph = Graph.read(output.read_bytes(), source="graph")
    assert (graph.name, graph.batch_size, graph.mode) == ("perceptron", 8, Mode.INFERENCE)
    found = prediction.predict(graph, devices.select(["NVIDIA-H200"]))
    assert found.graph == graph.digest


def test_open_shape_is_one_line_and_writes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = file.with_name("graph.json")
    assert cli.main(["extract", str(file), "--batch-size", "8", "--output", str(output)]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "perceptron.onnx: input 'x', axis 1: 'rows'" in error
    assert "--input-shape x=8,SIZE,64" in error
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("option", [["--compile"], ["--arg", "depth=50"], ["--sequence-length", "128"]])
def test_option_without_effect_on_this_file_is_refused(
    file: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["extract", str(file), "--batch-size", "8", *option]) == 2
    assert f"{option[0]}: " in capsys.readouterr().err


def test_truncated_file_is_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(file.read_bytes()[:100])
    assert cli.main(["extract", str(file), "--batch-size", "8"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "truncated or of another format" in error


def test_reading_a_file_imports_no_torch(file: Path) -> None:
    program = (
        "import sys; from cotenant_api import cli; "
        f"cli.main(['extract', {str(file)!r}, '--batch-size', '2', '--input-shape', 'x=2,3,64']); "
        "print({'torch', 'sklearn'} & set(sys.modules), file=sys.stderr)"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.strip() == "set()"
