"""The stripper: the graph document of a stripped file is that of the whole one, and nothing of the weights is left."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from cotenant_predictor.extraction import onnx_strip
from predictor_kit.onnx_models import constant, extracted, graph, model, node, weight

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SECRET = b"\xde\xad\xbe\xef" * 8


def held(name: str, shape: list[int], *, dtype: Any = np.float32) -> onnx.TensorProto:
    """An initializer with its elements, all alike and easily found."""
    array = np.frombuffer(SECRET * (int(np.prod(shape)) // 8 + 1), dtype=np.float32)[: int(np.prod(shape))]
    return numpy_helper.from_array(array.reshape(shape).astype(dtype, copy=False), name)


def convolutions() -> onnx.ModelProto:
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c s s s s", "n"),
        node("Resize", "n - scales", "r", mode="nearest"),
        node("Reshape", "r shape", "flat"),
        node("Gemm", "flat v", "y"),
    ]
    weights = [held("w", [64, 3, 3, 3]), held("b", [64]), held("s", [64]), held("v", [64 * 256, 10])]
    scales = constant("scales", [1.0, 1.0, 2.0, 2.0])
    return model(nodes, {"x": ["batch", 3, 8, 8]}, [*weights, scales, constant("shape", [-1, 64 * 256])])


def branches() -> onnx.ModelProto:
    then = graph([node("MatMul", "x w", "t")], {}, [held("w", [64, 64])])
    other = graph([node("Relu", "x", "e")], {})
    nodes = [node("If", "condition", "y", then_branch=then, else_branch=other)]
    return model(nodes, {"x": ["batch", 64]}, [constant("condition", np.asarray(True))])


def functions() -> onnx.ModelProto:
    body = [node("MatMul", "a b", "c"), node("Tanh", "c", "d")]
    made = helper.make_function("own", "Block", ["a", "b"], ["d"], body, [helper.make_opsetid("", 17)])
    return model(
        [node("Block", "x w", "y", domain="own")], {"x": ["batch", 64]}, [held("w", [64, 64])], functions=[made]
    )


def constants() -> onnx.ModelProto:
    value = held("v", [64, 32])
    nodes = [node("Constant", "", "w", value=value), node("MatMul", "x w", "y")]
    return model(nodes, {"x": ["batch", 64]})


def lists() -> onnx.ModelProto:
    nodes = [
        node("Constant", "", "floats", value_floats=[float(n) for n in range(5000)]),
        node("Constant", "", "ints", value_ints=list(range(5000))),
        node("Cast", "ints", "cast", to=TensorProto.FLOAT),
        node("Add", "floats cast", "sum"),
        node("Add", "x sum", "y"),
    ]
    return model(nodes, {"x": ["batch", 5000]})


MADE = {found.__name__: found() for found in (convolutions, branches, functions, constants, lists)}
EXTERNAL = model([node("MatMul", "x w", "h"), node("Relu", "h", "y")], {"x": ["batch", 64]}, [weight("w", [64, 10])])
WHOLE = {name: made.SerializeToString() for name, made in {**MADE, "external": EXTERNAL}.items()}
WHOLE |= {path.stem: path.read_bytes() for path in sorted(LIGHT.glob("light_*.onnx"))}


@pytest.mark.parametrize("mode", ["Inference", "Training"])
@pytest.mark.parametrize("name", sorted(WHOLE))
def test_stripped_file_gives_the_same_graph_document(name: str, mode: str) -> None:
    data = WHOLE[name]
    assert extracted(onnx_strip.stripped(data), mode=mode) == extracted(data, mode=mode)


@pytest.mark.parametrize("name", sorted(MADE))
def test_no_weight_is_left(name: str) -> None:
    assert SECRET not in onnx_strip.stripped(WHOLE[name])


def test_small_integers_and_scales_are_kept_and_small_weights_are_not() -> None:
    found = onnx.load_model_from_string(onnx_strip.stripped(WHOLE["convolutions"])).graph
    kept = {tensor.name for tensor in found.initializer if tensor.data_location != TensorProto.EXTERNAL}
    assert kept == {"scales", "shape"}
    assert {tensor.name: list(tensor.dims) for tensor in found.initializer}["v"] == [64 * 256, 10]


def test_a_file_of_many_weights_becomes_small() -> None:
    layers = [node("MatMul", f"h{n} w{n}", f"h{n + 1}") for n in range(24)]
    weights = [numpy_helper.from_array(np.random.default_rng(n).random((256, 256)), f"w{n}") for n in range(24)]
    made = model([node("Cast", "x", "h0", to=TensorProto.DOUBLE), *layers], {"x": ["batch", 256]}, weights)
    data = made.SerializeToString()
    assert len(data) > 12_000_000
    assert len(gzip.compress(onnx_strip.stripped(data), mtime=0)) < 2000


def test_what_describes_the_file_is_dropped() -> None:
    made = onnx.load_model_from_string(WHOLE["convolutions"])
    made.doc_string = made.producer_name = made.graph.doc_string = made.graph.node[0].doc_string = "a secret"
    made.metadata_props.add(key="a secret", value="a secret")
    assert b"a secret" not in onnx_strip.stripped(made.SerializeToString())


def test_file_on_disk_is_read_as_data_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(WHOLE["convolutions"])
    assert onnx_strip.strip(path) == onnx_strip.stripped(WHOLE["convolutions"])


@pytest.mark.parametrize("data", [b"", b"\x0a", b"hello world", b"\x08\x07", WHOLE["convolutions"][:-400]])
def test_what_is_no_onnx_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(onnx_strip.NotONNXError):
        onnx_strip.strip(path)


def test_endless_nesting_is_refused() -> None:
    inner = b""
    for _ in range(200):
        attribute = onnx_strip._field(6, inner)
        inner = onnx_strip._field(1, onnx_strip._field(5, attribute))
    with pytest.raises(onnx_strip.NotONNXError, match="deep"):
        onnx_strip.stripped(onnx_strip._field(7, inner))


def test_graph_that_is_too_large_without_weights_is_refused() -> None:
    made = model([node("Relu", "x", "y")], {"x": [1]})
    made.graph.node[0].name = "n" * (onnx_strip.MAX_KEPT_BYTES + 1)
    with pytest.raises(onnx_strip.NotONNXError, match="1600 KiB"):
        onnx_strip.stripped(made.SerializeToString())


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_files_are_stripped_or_refused_and_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(WHOLE[data.draw(st.sampled_from(sorted(MADE)))])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, min(len(whole), 2000) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    try:
        onnx_strip.stripped(bytes(whole[:cut] if cut % 3 == 0 else whole))
    except onnx_strip.NotONNXError:
        return
