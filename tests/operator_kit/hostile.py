"""Documents that somebody writes who wants to end whoever reads them. By name: what is asked, and the bytes."""

import gzip
import json
from collections.abc import Iterator
from typing import Any, Final

from onnx import TensorProto, helper

from cotenant_api import graph
from cotenant_operator.parsing import tasks
from cotenant_predictor.extraction import onnx_strip
from predictor_kit import onnx_models as onnx

Row = dict[str, Any]

GRAPH: Final = tasks.Task(kind=tasks.Kind.PREDICTION, source="graph")
DOCUMENT: Final = tasks.Task(kind=tasks.Kind.DOCUMENT, source="graph")
LINES: Final = tasks.Task(kind=tasks.Kind.LINES, source="lines")
ONNX: Final = tasks.Task(
    kind=tasks.Kind.PREDICTION,
    source="model",
    onnx=tasks.ONNX(name="x", batch_size=8, mode="Training", precision="bf16"),
)
_HEAD: Final = {"v": 1, "name": "x", "mode": "Training", "batchSize": 2, "parameters": 5, "parameterBytes": 20}
_OPERATOR: Final = {"class": "conv", "name": "a", "phase": "Forward"}


def packed(content: bytes) -> bytes:
    """Gzipped, fast."""
    return gzip.compress(content, compresslevel=6, mtime=0)


def document(operators: list[Row], **more: Any) -> bytes:
    """A graph document, gzipped."""
    return packed(json.dumps({**_HEAD, "operators": operators, **more}, separators=(",", ":")).encode())


def graphs() -> Iterator[tuple[str, tasks.Task, bytes]]:
    """Graph documents."""
    wide = {**_OPERATOR, "name": "n" * 256, "dims": {f"k{index}": 10**17 for index in range(8)}}
    yield "valid, of 72 MB", GRAPH, document([wide] * 180_000)
    yield "blanks", GRAPH, packed(b" " * (64 << 20))
    yield "lists", GRAPH, packed(b"[" + b"[]," * (1 << 20) + b"[]]")
    yield "lists in an unknown key", GRAPH, document([_OPERATOR], other=[[]] * 120_000)
    yield "objects in an unknown key", GRAPH, document([_OPERATOR], other=[{}] * 120_000)
    yield (
        "as many operators as may be",
        GRAPH,
        document([{**_OPERATOR, "flops": index, "dims": {"m": index}} for index in range(10_000)]),
    )
    yield "as many, packed again", DOCUMENT, document([{**_OPERATOR, "flops": index} for index in range(10_000)])
    yield "one operator of many dimensions", GRAPH, document([{**_OPERATOR, "dims": _many(200_000)}])
    yield "many unknown operators", GRAPH, document([_OPERATOR], coverage={"unknown": _many(200_000)})
    yield "wrong operators", GRAPH, document([{"class": "q"}] * 9_000)
    yield "a number of many digits", GRAPH, packed(json.dumps(_HEAD).encode()[:-1] + b',"x":' + b"9" * 4_000_000 + b"}")
    yield "deep", GRAPH, packed(b'{"a":' * 200_000 + b"1" + b"}" * 200_000)
    yield "escapes", GRAPH, document([_OPERATOR], other="\ud800" * 300_000)
    yield "text of 32 bits", GRAPH, packed(document_text().encode("utf-32"))
    yield "lines", LINES, b"{}\n" * 80_000
    yield "one line", LINES, b'{"kernels":[' + b"[]," * 80_000 + b"[]]}"


def document_text() -> str:
    """A graph document that is as large as it may be."""
    return json.dumps({**_HEAD, "operators": [_OPERATOR], "other": "x" * (graph.MAX_BYTES // 4 - 1000)})


def files() -> Iterator[tuple[str, tasks.Task, bytes]]:
    """ONNX files."""
    for name, content in _protobuf():
        yield name, ONNX, packed(content)
    for name, content in _models():
        yield name, ONNX, packed(content)


def _many(count: int) -> dict[str, int]:
    return {f"k{index}": 1 for index in range(count)}


def _field(number: int, content: bytes) -> bytes:
    return onnx_strip._field(number, content)


def _protobuf() -> Iterator[tuple[str, bytes]]:
    """Bytes that protobuf reads."""
    empty = b"\x0a\x00"
    yield "8 million empty nodes", b"\x08\x08" + _field(7, empty * (8 << 20)) + _field(8, b"\x10\x11")
    yield "empty nodes", b"\x08\x08" + _field(7, empty * 200_000) + _field(8, b"\x10\x11")
    yield "empty attributes", b"\x08\x08" + _field(7, _field(1, b"\x2a\x00" * 200_000)) + _field(8, b"\x10\x11")
    yield "zeros", bytes(1 << 20)
    yield "unknown fields", b"\x98\x06\x01" * 200_000


def _models() -> Iterator[tuple[str, bytes]]:
    """Models that onnx reads."""
    relu = onnx.node("Relu", "x", "y")
    names = " ".join(["c"] * 60_000)
    ones = [1] * 60_000
    chain = [onnx.node("Relu", "x" if not index else f"t{index}", f"t{index + 1}") for index in range(9_900)]
    twice = [
        helper.make_function("own", f"F{level}", ["a"], ["b"], _calls(level), [helper.make_opsetid("", 17)])
        for level in range(30)
    ]
    inputs: dict[str, Any] = {"x": ["n", 8]}
    held = [onnx.constant("c", list(range(4096)))]
    yield "a long chain", _text(chain, inputs)
    yield "functions that double", _text([onnx.node("F29", "x", "y", domain="own")], inputs, functions=twice)
    yield "a join of one tensor, often", _text([onnx.node("Concat", names, "y", axis=0), relu], inputs, held)
    yield "a maximum of one tensor, often", _text([onnx.node("Max", names, "y"), relu], inputs, held)
    yield "a tensor of many dimensions", _text([relu], {"x": ones})
    yield "many of many dimensions", _text([onnx.node("Sum", " ".join(["x"] * 20_000), "y")], {"x": [1] * 20_000})
    yield "claimed elements", _text([onnx.node("Add", "x w", "y")], inputs, [onnx.weight("w", [1 << 20, 1 << 20])])
    yield "a constant that claims elements", _text([_claims(), onnx.node("Add", "x w", "y")], inputs)
    yield "filled", _text([onnx.node("ConstantOfShape", "s", "w"), relu], inputs, [onnx.constant("s", [1 << 30])])
    yield (
        "a range",
        _text(
            [onnx.node("Range", "a b d", "w"), relu],
            inputs,
            [onnx.constant("a", 0), onnx.constant("b", 1 << 40), onnx.constant("d", 1)],
        ),
    )
    yield "repeated", _text([onnx.node("Tile", "c r", "w"), relu], inputs, [*held, onnx.constant("r", [1 << 30])])
    yield "padded", _text([onnx.node("Pad", "c r", "w"), relu], inputs, [*held, onnx.constant("r", [1 << 33, 1 << 33])])


def _calls(level: int) -> list[Any]:
    if not level:
        return [onnx.node("Relu", "a", "b")]
    return [onnx.node(f"F{level - 1}", "a", "c", domain="own"), onnx.node(f"F{level - 1}", "c", "b", domain="own")]


def _claims() -> Any:
    made = TensorProto(name="v", data_type=1, dims=[1365, 1365, 1366])
    return onnx.node("Constant", "", "w", value=made)


def _text(nodes: Any, inputs: Any, weights: Any = (), **more: Any) -> bytes:
    return bytes(onnx.model(nodes, inputs, weights, **more).SerializeToString())
