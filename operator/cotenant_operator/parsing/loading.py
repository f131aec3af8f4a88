"""Loads what answering tasks needs, and uses each part of it once: what is imported at first use is there then."""

import gzip
import hashlib
import importlib
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import onnx
from onnx import TensorProto, helper

from cotenant_api import documents, errors, graph
from cotenant_api.names import GPUModel
from cotenant_operator.parsing import tasks, work
from cotenant_predictor import devices
from cotenant_predictor.models import store as models

_GRAPH: Final = graph.Graph(
    name="warm",
    mode=graph.Mode.TRAINING,
    batch_size=8,
    parameters=1,
    parameter_bytes=4,
    operators=(
        graph.Operator(operator_class=graph.OperatorClass.MATMUL, name="aten::mm", phase=graph.Phase.FORWARD),
        graph.Operator(operator_class=graph.OperatorClass.CONV, name="aten::conv", phase=graph.Phase.BACKWARD),
    ),
).sealed()


_ENCODINGS: Final = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
"""What JSON may be written in: Python loads each when it is first met."""
_IMPORTED_LATE: Final = ("encodings.idna", "numpy.linalg", "unicodedata")


def load(model: Path | None, more: Path | None) -> tuple[tasks.Ready, Callable[[tasks.Task, bytes], tasks.Answer]]:
    """Return what the process says of itself, and what answers.

    Args:
        model: the folder of the model that predicts; None: the one that ships.
        more: a file with rows of further GPU models; None: none.

    Raises:
        InvalidInputError: the model, or the file, cannot be used.
        PermanentError: what was loaded does not work.
    """
    learned, known = models.load(model), devices.with_file(more)
    reader = work.Reader(devices=known, knowledge=learned.knowledge())
    for name in _IMPORTED_LATE:
        importlib.import_module(name)
    for task, data in _questions():
        answer = reader.answer(task, data)
        if answer.problem is not None or answer.fault is not None:
            raise errors.PermanentError(f"{task.source}: {answer.problem or answer.fault}")
    release, library = (importlib.metadata.version(name) for name in ("cotenant", "onnx"))
    version = f"cotenant {release}, onnx {library}, {learned.reference}, {_digest(known)}"
    return tasks.Ready(version=version, model=learned.reference, devices=tuple(sorted(known))), reader.answer


def _digest(known: Mapping[GPUModel, devices.Device]) -> str:
    """Return what predictions rest on besides the model: with other GPU models they are made anew."""
    rows = "\n".join(documents.canonical(device.to_object()) for device in known.values())
    return "devices sha256:" + hashlib.sha256(rows.encode()).hexdigest()


def _questions() -> Iterator[tuple[tasks.Task, bytes]]:
    text = _GRAPH.to_json()
    for encoding in _ENCODINGS:
        yield tasks.Task(kind=tasks.Kind.DIGEST, source=encoding), text.encode(encoding)
    yield tasks.Task(kind=tasks.Kind.DOCUMENT, source="graph"), _GRAPH.packed()
    yield tasks.Task(kind=tasks.Kind.PREDICTION, source="graph"), _GRAPH.packed()
    yield tasks.Task(kind=tasks.Kind.LINES, source="lines"), b"{}"
    for mode, precision in (("Training", "bf16"), ("Inference", "fp32")):
        wanted = tasks.ONNX(name="warm", batch_size=2, mode=mode, precision=precision)
        yield tasks.Task(kind=tasks.Kind.PREDICTION, source="onnx", onnx=wanted), _onnx_file()


def _onnx_file() -> bytes:
    """Return a network of a few nodes: shapes are computed from constants, inferred by onnx, and folded."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["c", "target"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    constants = {"zero": [0], "one": [1], "rest": [-1]}
    weights = [
        *(helper.make_tensor(name, TensorProto.INT64, [1], value) for name, value in constants.items()),
        *(_weight(name, dims) for name, dims in (("w", [8, 3, 3, 3]), ("v", [512, 10]))),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])]
    outputs = [helper.make_empty_tensor_value_info("y")]
    made = helper.make_model(
        helper.make_graph(nodes, "graph", inputs, outputs, initializer=weights),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    return gzip.compress(made.SerializeToString(), mtime=0)


def _weight(name: str, dims: list[int]) -> onnx.TensorProto:
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
