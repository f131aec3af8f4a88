"""Whatever an ONNX file has: it gives a graph document, or is refused with a place and a remedy, soon."""

import functools
import time
from collections.abc import Iterator
from typing import Any

import onnx
import onnx.defs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api import errors
from predictor_kit.onnx_models import constant, extracted, graph, model, node, tensor, weight

SIZES = st.sampled_from([0, 1, -1, 2, 3, 5, 100_000, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)])
MAX_SECONDS = 20
"""Far above what any of these files takes; a bound against what does not end."""


@functools.cache
def seeds() -> tuple[bytes, ...]:
    """Small files that have every kind of node."""
    return tuple(
        made.SerializeToString()
        for made in (network(), shapes(), loop(), branch(), layers(), attention(), contributed())
    )


def network() -> onnx.ModelProto:
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c s s s s", "n"),
        node("Relu", "n", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f g", "y", transB=1),
    ]
    weights = [weight("w", [8, 4, 3, 3]), weight("b", [8]), weight("s", [8]), weight("g", [10, 8])]
    return model(nodes, {"x": ["n", 4, 9, 9]}, weights)


def shapes() -> onnx.ModelProto:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 rest", "target", axis=0),
        node("Reshape", "x target", "y"),
        node("Slice", "y axes end", "z"),
        node("Range", "zero count one", "r"),
        node("ConstantOfShape", "n1", "cs"),
        node("Expand", "cs n1", "e"),
        node("NonZero", "e", "nz"),
        node("Tile", "e n1", "t"),
        node("Softmax", "z", "last"),
    ]
    values = {"zero": 0, "one": 1, "count": 5, "axes": [0], "rest": [-1], "end": [2**63 - 1]}
    return model(nodes, {"x": ["n", 3, 4]}, [constant(name, value) for name, value in values.items()])


def loop() -> onnx.ModelProto:
    entries = [tensor("i", [], "int64"), tensor("more", [], "bool"), tensor("v", [2, 8])]
    inner = [node("Identity", "more", "more2"), node("MatMul", "v w", "v2")]
    slices = graph([node("Add", "s e", "s2"), node("Identity", "s2", "o")], {"s": [8], "e": [8]}, outputs=["s2", "o"])
    nodes = [
        node("Loop", "m - x", "y all", body=graph(inner, entries, outputs=["more2", "v2", "v2"])),
        node("Scan", "start y", "last each", body=slices, num_scan_inputs=1),
    ]
    weights = [constant("m", 7), constant("start", [0.0] * 8), weight("w", [8, 8])]
    return model(nodes, {"x": ["n", 8]}, weights)


def branch() -> onnx.ModelProto:
    twice = onnx.helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [node("Mul", "a a", "c"), node("Elu", "c", "b")],
        [onnx.helper.make_opsetid("", 17)],
    )
    then, other = graph([node("Relu", "x", "t")], {}), graph([node("MatMul", "x w", "e")], {})
    nodes = [
        node("ReduceSum", "x", "r", keepdims=0),
        node("Cast", "r", "c", to=onnx.TensorProto.BOOL),
        node("If", "c", "i", then_branch=then, else_branch=other),
        node("Twice", "i", "y", domain="own"),
    ]
    return model(nodes, {"x": ["n", 8]}, [weight("w", [8, 8])], functions=[twice])


def layers() -> onnx.ModelProto:
    nodes = [
        node("LSTM", "x wl rl", "l", hidden_size=4),
        node("Einsum", "a b", "e", equation="bij,bjk->bik"),
        node("TopK", "e k", "v i"),
        node("Resize", "p - sc", "z"),
        node("MaxPool", "z", "mp", kernel_shape=[2, 2]),
        node("ConvTranspose", "mp w", "y", strides=[2, 2]),
    ]
    inputs = {"x": [3, 2, 8], "a": [2, 4, 4], "b": [2, 4, 5], "p": [2, 4, 6, 6]}
    weights = [constant("k", [2]), constant("sc", [1.0, 1.0, 2.0, 2.0]), weight("w", [4, 2, 3, 3])]
    return model(nodes, inputs, [*weights, weight("wl", [1, 16, 8]), weight("rl", [1, 16, 4])])


def attention() -> onnx.ModelProto:
    nodes = [
        node("MatMul", "x w", "q"),
        node("MatMul", "q k", "s"),
        node("Mul", "s scale", "s1"),
        node("Where", "mask s1 low", "t"),
        node("Softmax", "t", "p"),
        node("Dropout", "p ratio", "d"),
        node("MatMul", "d v", "y"),
    ]
    inputs = [tensor("x", [2, 4, 10, 8]), tensor("k", [2, 4, 8, 12]), tensor("v", [2, 4, 12, 8])]
    constants = [constant("scale", 0.1), constant("low", -1.0), constant("ratio", 0.1), weight("w", [8, 8])]
    return model(nodes, [*inputs, tensor("mask", [2, 1, 10, 12], "bool")], constants)


def contributed() -> onnx.ModelProto:
    nodes = [
        node("Attention", "x w b", "a", domain="com.microsoft", num_heads=4),
        node("SkipLayerNormalization", "a x s s", "n", domain="com.microsoft"),
        node("FastGelu", "n", "y", domain="com.microsoft"),
    ]
    return model(nodes, {"x": [2, 10, 32]}, [weight("w", [32, 96]), weight("b", [96]), weight("s", [32])])


def is_accepted(data: bytes, **options: Any) -> bool:
    """Whether the file gives a document; else it is refused, naming a place."""
    start = time.monotonic()
    try:
        extracted(data, batch_size=2, **options)
    except errors.InvalidInputError as error:
        refusal = error
    else:
        return True
    assert refusal.field
    assert refusal.remedy
    assert time.monotonic() - start < MAX_SECONDS
    return False


def every_node(found: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for each in found.node:
        yield each
        for attribute in each.attribute:
            if attribute.HasField("g"):
                yield from every_node(attribute.g)


def changed(found: onnx.ModelProto, draw: Any) -> None:
    """One thing of a model made another one."""
    nodes = list(every_node(found.graph))
    names = sorted({name for each in nodes for name in [*each.input, *each.output]})
    each = draw(st.sampled_from(nodes))
    kind = draw(st.integers(0, 7))
    if kind == 0:
        each.op_type = draw(st.sampled_from(sorted({schema.name for schema in onnx.defs.get_all_schemas()})))
    elif kind == 1 and each.input:
        each.input[draw(st.integers(0, len(each.input) - 1))] = draw(st.sampled_from(names))
    elif kind == 2:
        del each.input[draw(st.integers(0, len(each.input))) :]
    elif kind == 3:
        del each.output[draw(st.integers(0, len(each.output))) :]
    elif kind == 4:
        for attribute in each.attribute:
            attribute.i = draw(SIZES)
            attribute.ints[:] = [draw(SIZES) for _ in attribute.ints]
    elif kind == 5:
        held = draw(st.sampled_from(list(found.graph.initializer)))
        held.dims[:] = [draw(SIZES) for _ in held.dims]
        held.data_type = draw(st.integers(0, 30))
    elif kind == 6:
        entry = draw(st.sampled_from(list(found.graph.input))).type.tensor_type
        entry.elem_type = draw(st.integers(0, 30))
        for dim in entry.shape.dim:
            dim.dim_value = draw(SIZES)
    else:
        found.opset_import[0].version = draw(st.integers(6, onnx.defs.onnx_opset_version() + 1))


@pytest.mark.parametrize("index", range(7))
@pytest.mark.parametrize("mode", ["Training", "Inference"])
def test_the_file_that_is_changed_below_is_read(index: int, mode: str) -> None:
    assert is_accepted(seeds()[index], mode=mode, precision="bf16")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data: bytes) -> None:
    assert not is_accepted(data)


@given(data=st.data())
def test_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(seeds())))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=6))
    is_accepted(bytes(content), mode=data.draw(st.sampled_from(["Training", "Inference"])))


@given(data=st.data())
def test_file_cut_anywhere_is_read_or_refused(data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(seeds()))
    is_accepted(content[: data.draw(st.integers(0, len(content)))])


@given(data=st.data())
def test_changed_model_is_read_or_refused(data: st.DataObject) -> None:
    found = onnx.ModelProto()
    found.ParseFromString(data.draw(st.sampled_from(seeds())))
    for _ in range(data.draw(st.integers(1, 3))):
        changed(found, data.draw)
    mode, precision = data.draw(st.sampled_from([("Training", "bf16"), ("Training", "fp32"), ("Inference", "fp16")]))
    is_accepted(found.SerializeToString(), mode=mode, precision=precision)


def test_recurrent_layer_of_more_directions_than_there_are_is_one_unknown_operator() -> None:
    weights = [weight("w", [2**31, 16, 8]), weight("r", [2**31, 16, 4])]
    found = extracted(model([node("LSTM", "x w r", "y", hidden_size=4)], {"x": [3, "n", 8]}, weights))
    assert found.coverage.unknown == {"onnx::LSTM": 1}
