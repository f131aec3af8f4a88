"""`cotenant submit` of a Python callable: extracted in this process, and what the job will need said at once."""

import json
import sys
from pathlib import Path

import pytest

from cotenant_api import cli, graph
from cotenant_cli.submitting import objects

MODEL = """\
import torch

def tiny(batch_size, width=64):
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()), torch.empty(batch_size, width)
"""
OFFLINE = ["--image", "registry.example/train:1", "--dry-run=client", "--gpu-model", "NVIDIA-H200"]


@pytest.fixture
def callable_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A callable in a module of the current folder."""
    (tmp_path / "submitted_models.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return "submitted_models:tiny"


def test_a_callable_becomes_a_graph_and_a_dljob(callable_: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [callable_, *OFFLINE, "--batch-size", "8", "--arg", "width=128", "-o", "json"]
    assert cli.main(["submit", *words]) == 0
    config_map, job = json.loads(capsys.readouterr().out)["items"]
    found = graph.Graph.read(objects.graph_of(config_map), source="test")
    assert (found.name, found.batch_size, found.mode) == ("tiny", 8, graph.Mode.TRAINING)
    assert found.parameters == 128 * 128 + 128
    assert job["metadata"]["name"] == "tiny"


def test_inference_is_extracted_as_inference(callable_: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [callable_, *OFFLINE, "--batch-size", "1", "--workload-type", "Inference", "--requests-per-second", "5"]
    assert cli.main(["submit", *words, "-o", "json"]) == 0
    config_map, job = json.loads(capsys.readouterr().out)["items"]
    found = graph.Graph.read(objects.graph_of(config_map), source="test")
    assert (found.mode, job["spec"]["workloadType"]) == (graph.Mode.INFERENCE, "Inference")


def test_a_callable_that_is_not_there_is_refused_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["submit", "no_such_module:f", *OFFLINE, "--batch-size", "1"]) == 2
    assert "importable from the current folder or PYTHONPATH" in capsys.readouterr().err
