"""What a file would become in memory is counted before it is built."""

import pytest
from onnx import TensorProto

from cotenant_api import errors
from cotenant_predictor.extraction import onnx_strip
from cotenant_predictor.extraction.onnx_reader import document, wire
from predictor_kit import onnx_models as onnx


def field(number: int, content: bytes) -> bytes:
    return onnx_strip._field(number, content)


MODEL = onnx.model([onnx.node("Relu", "x", "y")], {"x": ["n", 8]}).SerializeToString()
EMPTY = b"\x0a\x00"
NODES = field(7, EMPTY * 300_000)
ATTRIBUTES = field(7, field(1, b"\x2a\x00" * 300_000))
INTEGERS = field(7, field(1, field(5, field(8, b"\x01" * 300_000))))
DIMENSIONS = field(7, field(5, field(1, b"\x01" * 300_000)))
FUNCTIONS = field(25, field(7, EMPTY * 300_000))
TYPES = field(7, field(11, field(2, field(1, field(2, EMPTY * 300_000)))))


@pytest.mark.parametrize("data", [NODES, ATTRIBUTES, INTEGERS, DIMENSIONS, FUNCTIONS, TYPES])
def test_more_parts_than_any_model_has_are_refused_before_they_are_built(data: bytes) -> None:
    with pytest.raises(errors.InvalidInputError, match=f"must have at most {wire.MAX_PARTS} fields and numbers"):
        document.parsed(MODEL + data, source="x")


def test_messages_too_deep_inside_one_another_are_refused() -> None:
    data = b""
    for _ in range(40):
        data = field(7, field(1, field(5, field(6, data)))) if not data else field(1, field(5, field(6, data)))
    with pytest.raises(errors.InvalidInputError, match="messages more than 100 deep"):
        wire.check(field(7, data), source="x")


@pytest.mark.parametrize("data", [b"\x0a", b"\x3a\x7f", b"\x0f", b"\x3a" + b"\xff" * 20])
def test_what_is_cut_is_refused(data: bytes) -> None:
    with pytest.raises(errors.InvalidInputError, match="must be a whole ONNX file"):
        wire.check(data, source="x")


def test_weights_in_the_file_count_as_one_part_each() -> None:
    made = TensorProto(name="w", data_type=1, dims=[1 << 20], raw_data=bytes(4 << 20))
    wire.check(onnx.model([onnx.node("Relu", "x", "y")], {"x": ["n", 8]}, [made]).SerializeToString(), source="x")
