"""The extractor as it travels: the command, the one file alone, and the committed examples."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_api import cli
from cotenant_api.graph import Graph
from cotenant_predictor.extraction import extractor

ROOT = Path(__file__).parents[2]
MODELS = """
import torch

def model(batch_size, width=4):
    return torch.nn.Linear(width, 3), torch.empty(batch_size, width)

def deciding(batch_size):
    class Net(torch.nn.Linear):
        def forward(self, values):
            return values if values.sum() > 0 else super().forward(values)
    return Net(4, 4), torch.empty(batch_size, 4)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_models.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_command_writes_a_document_that_predict_reads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--batch-size", "8", "--arg", "width=16", "--loader-workers", "2", "--samples-per-second", "100"]
    assert cli.main(["extract", "own_models:model", *arguments, "--output", "graph.json.gz"]) == 0
    graph = Graph.read((folder / "graph.json.gz").read_bytes(), source="graph.json.gz")
    assert (graph.name, graph.batch_size, graph.parameters) == ("model", 8, 16 * 3 + 3)
    assert (graph.host.loader_workers, graph.host.samples_per_second) == (2, 100.0)
    assert (graph.optimizer, graph.framework[:6]) == ("adamw", "torch ")
    assert cli.main(["predict", "graph.json.gz"]) == 0
    assert json.loads(capsys.readouterr().out)["graph"] == graph.digest


def test_command_prints_a_document_of_an_inference_job(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = ["--mode", "Inference", "--requests-per-second", "5", "--name", "served"]
    assert cli.main(["extract", "own_models:model", "--batch-size", "1", *load]) == 0
    graph = Graph.from_json(capsys.readouterr().out, source="standard output")
    assert graph.inference is not None
    assert (graph.name, graph.inference.requests_per_second) == ("served", 5.0)


def test_command_refuses_in_one_line_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["extract", "own_models:deciding", "--batch-size", "2", "--output", "graph.json"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "own_models.py:10 in forward" in error
    assert "_local_scalar_dense" in error
    assert not list(folder.glob("*graph.json*"))


def test_requests_of_a_training_job_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["extract", "own_models:model", "--batch-size", "2", "--requests-per-second", "5"]) == 2
    assert "needs --mode Inference" in capsys.readouterr().err


def test_extractor_is_one_file_that_runs_by_itself(folder: Path) -> None:
    (folder / "extractor.py").write_bytes(Path(extractor.__file__).read_bytes())
    arguments = ["own_models:model", "--batch-size", "2", "--precision", "bf16", "--arg", "width=5", "--compile"]
    program = "import runpy, sys; sys.path.insert(0, '.'); runpy.run_path('extractor.py', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    graph = Graph.from_json(done.stdout, source="standard output")
    assert (graph.parameters, graph.batch_size, graph.compiled) == (5 * 3 + 3, 2, True)


def test_extractor_by_itself_says_where_a_model_decides_by_data(folder: Path) -> None:
    arguments = [str(Path(extractor.__file__)), "own_models:deciding", "--batch-size", "2"]
    refused = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "own_models.py:10 in forward" in refused.stderr
    example = [*arguments, "--example", "own_models.py:10=False"]
    assert subprocess.run([sys.executable, *example], cwd=folder, capture_output=True, check=False).returncode == 0


def test_committed_examples_are_what_is_extracted_now() -> None:
    examples = ROOT / "manifests" / "examples"
    program = (
        f"import sys; sys.path.insert(0, {str(examples / 'models')!r}); from example_models import __main__ as m; "
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            program + f"sys.argv[1:] = ['--check', {str(examples / 'graphs')!r}]; sys.exit(m.main())",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
