"""What torch exports to ONNX counts as what the PyTorch extractor counts of the same model."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
import transformers
from torch import nn
from torch.nn import functional

from cotenant_api.graph import Graph, OperatorClass, Phase
from cotenant_predictor.extraction.onnx_reader import document

Extract = Callable[..., Graph]
Count = Callable[[Graph], int]
Export = Callable[..., bytes]

BATCH = 2


class Residual(nn.Module):
    """A small convolutional network with a shortcut, grouped and transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=4), nn.BatchNorm2d(16))
        self.last = nn.ConvTranspose2d(16, 4, 4, stride=2, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images of shape (b, 3, h, w)."""
        values = self.first(images)
        return self.last((self.second(values) + values).relu())


class Transformer(nn.Module):
    """A transformer block behind an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(500, 64), nn.LayerNorm(64)
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.wide, self.back = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens of shape (b, n)."""
        values = self.table(tokens)
        query, key, value = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in self.qkv(values).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        values = self.norm(values + self.out(mixed))
        return values + self.back(functional.gelu(self.wide(values)))


class Recurrent(nn.Module):
    """Two layers of an LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 12)
        self.lstm = nn.LSTM(12, 20, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Values of shape (b, t, 6)."""
        return self.lstm(self.first(values))[0]


class Encoder(nn.Module):
    """BERT's last hidden state."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = transformers.BertModel(transformers.BertConfig(num_hidden_layers=1), add_pooling_layer=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens of shape (b, n)."""
        return self.bert(input_ids=tokens).last_hidden_state


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], torch.dtype]] = {
    "resnet50": (torchvision.models.resnet50, (3, 224, 224), torch.float32),
    "mobilenet_v2": (torchvision.models.mobilenet_v2, (3, 224, 224), torch.float32),
    "residual": (Residual, (3, 32, 32), torch.float32),
    "transformer": (Transformer, (24,), torch.long),
    "bert": (Encoder, (32,), torch.long),
    "recurrent": (Recurrent, (7, 6), torch.float32),
}


def example(name: str) -> torch.Tensor:
    _, shape, dtype = MODELS[name]
    return torch.zeros(BATCH, *shape, dtype=dtype)


def made(name: str) -> nn.Module:
    """A model all of whose weights differ: exporters store equal ones once."""
    model = MODELS[name][0]()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.uniform_(0.1, 0.9)
    return model


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """A model as an ONNX file; only torch's older exporter writes a graph to train."""

    def run(name: str, *, training: bool = False, newest: bool = False) -> bytes:
        path, model = tmp_path / "model.onnx", made(name).train(training)
        options: dict[str, Any] = {"dynamo": newest, "input_names": ["x"]}
        if not newest:
            mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
            options |= {"training": mode, "do_constant_folding": not training, "dynamic_axes": {"x": {0: "batch"}}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter's own deprecations
            torch.onnx.export(model, (example(name),), path, **options)
        return path.read_bytes()

    return run


@pytest.fixture
def read() -> Callable[..., Graph]:
    def run(data: bytes, *, mode: str, precision: str = "fp32") -> Graph:
        options = document.Options(name="x", batch_size=BATCH, mode=mode, precision=precision, optimizer="sgd")
        return Graph.from_object(document.extract(data, options, source="model.onnx"), source="model.onnx")

    return run


def by_class(graph: Graph, phase: Phase) -> dict[OperatorClass, int]:
    found = dict.fromkeys((OperatorClass.CONV, OperatorClass.RNN, OperatorClass.NORM, OperatorClass.ATTENTION), 0)
    for op in graph.operators:
        if op.phase is phase and op.operator_class in found:
            found[op.operator_class] += op.repeat
    return found


@pytest.mark.parametrize("name", sorted(MODELS))
def test_step_agrees(
    name: str, export: Export, read: Callable[..., Graph], extract: Extract, matrix_flops: Count
) -> None:
    def build() -> Any:
        return MODELS[name][0](), example(name)

    data = export(name, training=True)
    for mode in ("Inference", "Training"):
        found, expected = read(data, mode=mode), extract(build, mode=mode, batchSize=BATCH)
        assert matrix_flops(found) == matrix_flops(expected)
        assert found.parameters == expected.parameters
        assert found.parameter_bytes == expected.parameter_bytes
        assert found.input_bytes_per_step == expected.input_bytes_per_step
        assert found.coverage.unknown == {}
        for phase in (Phase.FORWARD, Phase.BACKWARD):
            assert by_class(found, phase) == by_class(expected, phase)


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "residual"])
def test_memory_of_a_convolutional_step_agrees(
    name: str, export: Export, read: Callable[..., Graph], extract: Extract
) -> None:
    found = read(export(name, training=True), mode="Training")
    expected = extract(lambda: (MODELS[name][0](), example(name)), batchSize=BATCH)
    assert found.saved_activation_bytes == pytest.approx(expected.saved_activation_bytes, rel=0.05)
    moved, known = (
        sum(op.repeat * (op.bytes_read + op.bytes_written) for op in g.operators) for g in (found, expected)
    )
    assert moved == pytest.approx(known, rel=0.1)
    # The loss and its gradient are not in the file.
    assert 0 <= expected.critical_path_operators - found.critical_path_operators <= 4


@pytest.mark.parametrize("name", ["residual", "recurrent", "transformer"])
def test_dimensions_of_matrix_operators_agree(
    name: str, export: Export, read: Callable[..., Graph], extract: Extract
) -> None:
    def dims(graph: Graph) -> set[tuple[Any, ...]]:
        wanted = (OperatorClass.CONV, OperatorClass.RNN, OperatorClass.ATTENTION)
        rows = [op for op in graph.operators if op.operator_class in wanted]
        return {(op.phase, op.operator_class, *sorted(op.dims.items()), op.flops, op.dtype) for op in rows}

    found = read(export(name, training=True), mode="Training")
    assert dims(found) == dims(extract(lambda: (MODELS[name][0](), example(name)), batchSize=BATCH))


@pytest.mark.parametrize("name", ["residual", "transformer", "recurrent"])
def test_what_the_newest_exporter_writes_agrees(
    name: str, export: Export, read: Callable[..., Graph], extract: Extract, matrix_flops: Count
) -> None:
    found = read(export(name, newest=True), mode="Inference")
    expected = extract(lambda: (MODELS[name][0](), example(name)), mode="Inference", batchSize=BATCH)
    assert matrix_flops(found) == matrix_flops(expected)
    assert found.coverage.unknown == {}
