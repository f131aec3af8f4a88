"""The graph documents of the Horus mix: what the manifest says is there, and counts that others published."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import cotenant_simulator
from cotenant_api.graph import Graph, Mode, OperatorClass, Phase, Precision

FOLDER = Path(cotenant_simulator.__file__).parent / "horus" / "graphs"
MANIFEST: Mapping[str, str] = json.loads((FOLDER / "manifest.json").read_bytes())
TORCHVISION: Mapping[str, str] = json.loads((FOLDER / "manifest-torchvision.json").read_bytes())
FILES = {file: key for manifest in (MANIFEST, TORCHVISION) for key, file in manifest.items()}
PIXELS_BYTES = 3 * 32 * 32 * 4
WORD_BYTES = 8


def graph_of(file: str) -> Graph:
    return Graph.read((FOLDER / file).read_bytes(), source=file)


def test_manifests_name_every_file() -> None:
    assert sorted(FILES) == sorted(path.name for path in FOLDER.glob("*.json.gz"))


def test_manifests_name_the_same_jobs_and_no_file_twice() -> None:
    assert list(MANIFEST) == list(TORCHVISION)
    assert len(set(MANIFEST.values())) == len(set(TORCHVISION.values())) == len(MANIFEST)


def test_mix_has_every_model_at_every_batch_size() -> None:
    sizes: dict[str, list[int]] = {}
    for key in MANIFEST:
        model, size = key.removesuffix(")").split(" (batch size ")
        sizes.setdefault(model, []).append(int(size))
    texts = {model: sizes.pop(model) for model in ("LSTM-LM", "LSTM-classifier")}
    assert (len(sizes), set(map(tuple, sizes.values()))) == (20, {(64, 128, 256, 512)})
    assert set(map(tuple, texts.values())) == {(16, 32, 64)}


@pytest.mark.parametrize(("file", "key"), FILES.items())
def test_graph_is_the_training_step_that_its_name_says(file: str, key: str) -> None:
    graph = graph_of(file)
    assert (f"{graph.name}.json.gz", graph.packed()) == (file, (FOLDER / file).read_bytes())
    assert (graph.mode, graph.precision, graph.compiled) == (Mode.TRAINING, Precision.FP32, False)
    assert re.findall(r"\d+", key)[-1] == str(graph.batch_size)
    assert {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER} <= {op.phase for op in graph.operators}
    assert (graph.coverage.flops_percent, graph.coverage.unknown) == (100.0, {})


@pytest.mark.parametrize(("file", "key"), FILES.items())
def test_input_comes_from_the_host_at_every_step(file: str, key: str) -> None:
    graph = graph_of(file)
    words = {"LSTM-LM": 2 * 200, "LSTM-classifier": 200 + 1}.get(key.split(" ", maxsplit=1)[0])
    sample, workers = (PIXELS_BYTES, 2) if words is None else (words * WORD_BYTES, 0)
    assert graph.input_bytes_per_step == graph.batch_size * sample
    assert (graph.host.loader_workers, graph.host.data_on_gpu, graph.host.samples_per_second) == (workers, False, None)


@pytest.mark.parametrize(
    ("model", "parameters", "multiplications"),
    [
        ("ResNet-18", 11.17e6, 0.56e9),
        ("ResNet-34", 21.28e6, 1.16e9),
        ("ResNet-50", 23.52e6, 1.30e9),
        ("VGG-19", 20.04e6, 0.40e9),
        ("DenseNet-121", 6.96e6, 0.90e9),
        ("PyramidNet-110-a48", 1_772_706, 408.37e6),
        ("PyramidNet-110-a84", 3_904_446, 778.15e6),
    ],
)
def test_network_is_as_large_as_published(model: str, parameters: float, multiplications: float) -> None:
    """On CIFAR-10: https://github.com/da2so/DA2Lite and, PyramidNet, https://github.com/osmr/imgclsmob."""
    graph = graph_of(MANIFEST[f"{model} (batch size 64)"])
    forward = (op for op in graph.operators if op.phase is Phase.FORWARD)
    flops = sum(
        op.flops * op.repeat for op in forward if op.operator_class in {OperatorClass.CONV, OperatorClass.MATMUL}
    )
    assert graph.parameters == pytest.approx(parameters, rel=1e-3)
    assert flops / 2 / graph.batch_size == pytest.approx(multiplications, rel=0.02)


def test_definitions_for_large_images_do_less_than_a_third_of_the_work_on_small_ones() -> None:
    for model in ("ResNet-18", "GoogLeNet", "DenseNet-121", "MobileNetV2", "ShuffleNetV2-1.0"):
        key = f"{model} (batch size 64)"
        assert _convolutions(graph_of(TORCHVISION[key])) < _convolutions(graph_of(MANIFEST[key])) / 3


def _convolutions(graph: Graph) -> int:
    return sum(op.flops * op.repeat for op in graph.operators if op.operator_class is OperatorClass.CONV)
