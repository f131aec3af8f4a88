"""Counts what is in an ONNX file before protobuf builds it: a few bytes of it become some hundred each in memory."""

from typing import Final

from cotenant_api import errors
from cotenant_predictor.extraction import onnx_strip

MAX_BYTES: Final = onnx_strip.MAX_KEPT_BYTES
"""Of a file without weights; the stripper writes no larger one."""
MAX_PARTS: Final = 250_000
"""Fields, and numbers in lists, in all messages together."""
MAX_DEPTH: Final = 100
"""Messages inside one another; protobuf's own bound."""

_Inner = dict[int, str]
_TENSORS: Final[_Inner] = {1: "tensor", 2: "tensor"}
_MESSAGES: Final[dict[str, _Inner]] = {
    "model": {7: "graph", 8: "leaf", 14: "leaf", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph", 3: "leaf", 4: "leaf"},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value", 14: "leaf", 15: "sparse", 16: "leaf"},
    "function": {7: "node", 9: "leaf", 11: "attribute", 12: "value", 14: "leaf"},
    "node": {5: "attribute", 9: "leaf", 10: "leaf"},
    "attribute": {
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        14: "type",
        15: "type",
        22: "sparse",
        23: "sparse",
    },
    "sparse": _TENSORS,
    "tensor": {13: "leaf"},
    "value": {2: "type", 4: "leaf"},
    "type": {1: "typed", 4: "outer", 5: "outer", 8: "typed", 9: "outer"},
    "typed": {2: "shape"},
    "outer": {1: "type", 2: "type"},
    "shape": {1: "leaf"},
    "leaf": {},
}
"""By message of onnx.proto: which of its fields are messages themselves."""
_LISTS: Final = {"attribute": (7, 8), "tensor": (1,)}
"""Lists of numbers that become objects of Python, and may be packed into one field."""


def check(data: bytes, *, source: str) -> None:
    """Return if the file is of a size that can be read.

    Raises:
        InvalidInputError: it has too many parts, is too deep, or is no ONNX file.
    """
    try:
        count = parts(data)
    except onnx_strip.NotONNXError as error:
        remedy = f"must be a whole ONNX file: it is truncated or of another format; export it again ({error})"
        raise errors.InvalidInputError(source, data[:16], remedy) from error
    if count > MAX_PARTS:
        remedy = f"must have at most {MAX_PARTS} fields and numbers: export a smaller part of the model"
        raise errors.InvalidInputError(source, f"more than {MAX_PARTS} in {len(data)} bytes", remedy)


def parts(data: bytes) -> int:
    """Fields and listed numbers of all messages; counting ends where there are too many. Raises NotONNXError."""
    count = 0
    waiting = [("model", 0, len(data), 0)]
    while waiting:
        message, start, end, depth = waiting.pop()
        inner, lists = _MESSAGES[message], _LISTS.get(message, ())
        for number, kind, _, value, stop in onnx_strip.entries(data, start, end):
            packed = kind == onnx_strip.BYTES
            # A number takes a byte at least.
            count += stop - value if packed and number in lists else 1
            if count > MAX_PARTS:
                return count
            if packed and number in inner:
                if depth >= MAX_DEPTH:
                    raise onnx_strip.NotONNXError(f"it has messages more than {MAX_DEPTH} deep inside one another")
                waiting.append((inner[number], value, stop, depth + 1))
    return count
