"""What ONNX's operators count: FLOPs, dimensions, bytes, classes."""

from typing import Any

import numpy as np
import onnx
import pytest

from cotenant_api import errors
from cotenant_api.graph import Graph, OperatorClass
from predictor_kit.onnx_models import constant, extracted, model, node, only, tensor, weight


def convolved(operator: str = "Conv", *, weights: tuple[int, ...] = (8, 4, 3, 3), **attributes: Any) -> Graph:
    made = node(operator, "x w b", "y", **attributes)
    return extracted(model([made], {"x": ["n", 4, 9, 9]}, [weight("w", weights), weight("b", [8])]), batch_size=2)


def multiplied(*shapes: tuple[int, ...]) -> dict[str, int]:
    inputs = dict(zip("ab", shapes, strict=True))
    return only(extracted(model([node("MatMul", "a b", "y")], inputs), batch_size=shapes[0][0]), "onnx::MatMul").dims


def recurrent(operator: str, gates: int, **attributes: Any) -> Graph:
    weights = [weight("w", [2, gates * 20, 12]), weight("r", [2, gates * 20, 20])]
    made = node(operator, "x w r", "y", hidden_size=20, direction="bidirectional", **attributes)
    return extracted(model([made], {"x": [7, "batch", 12]}, weights), batch_size=5)


def test_convolution_counts_every_tap_of_every_output() -> None:
    found = only(convolved(pads=[1, 1, 1, 1]), "onnx::Conv")
    assert found.flops == 2 * (2 * 8 * 9 * 9) * (4 * 3 * 3)
    assert found.dims == {"b": 2, "c": 4, "k": 8, "h": 9, "w": 9, "r": 3, "s": 3, "groups": 1}
    assert found.bytes_read == 4 * (2 * 4 * 81 + 8 * 4 * 9 + 8)
    assert found.bytes_written == 4 * 2 * 8 * 81
    assert (found.kernels, found.dtype) == (2, "tf32")


def test_grouped_convolution_counts_the_taps_of_its_group() -> None:
    found = only(convolved(weights=(8, 1, 3, 3), group=4), "onnx::Conv")
    assert (found.flops, found.dims["groups"]) == (2 * (2 * 8 * 7 * 7) * 9, 4)


def test_strided_and_dilated_convolution_counts_its_outputs() -> None:
    assert only(convolved(strides=[2, 2], dilations=[2, 2]), "onnx::Conv").flops == 2 * (2 * 8 * 3 * 3) * (4 * 9)


def test_transposed_convolution_counts_every_tap_of_every_input() -> None:
    found = only(convolved("ConvTranspose", weights=(4, 8, 4, 4), strides=[2, 2]), "onnx::ConvTranspose")
    assert found.flops == 2 * (2 * 4 * 9 * 9) * (8 * 4 * 4)
    assert (found.dims["c"], found.dims["k"]) == (8, 4)


@pytest.mark.parametrize(("shape", "taps"), [((4, 30), (5,)), ((4, 9, 8, 7), (3, 3, 3))])
def test_convolution_has_one_to_three_dimensions(shape: tuple[int, ...], taps: tuple[int, ...]) -> None:
    made = model([node("Conv", "x w", "y")], {"x": [3, *shape]}, [weight("w", [6, 4, *taps])])
    found = only(extracted(made, batch_size=3), "onnx::Conv")
    assert found.flops == 2 * found.output_elements * 4 * (taps[0] ** len(taps))
    assert set(found.dims) == {"b", "c", "k", "groups"} | set("hwd"[: len(taps)]) | set("rst"[: len(taps)])


def test_matrix_meets_all_rows_of_a_batch_at_once() -> None:
    assert multiplied((2, 5, 7), (7, 3)) == {"b": 1, "m": 10, "n": 3, "k": 7}


def test_products_of_two_batches_are_batched() -> None:
    assert multiplied((2, 4, 5, 7), (2, 4, 7, 3)) == {"b": 8, "m": 5, "n": 3, "k": 7}


def test_products_of_broadcast_batches_are_all_counted() -> None:
    assert multiplied((2, 1, 5, 7), (3, 7, 3)) == {"b": 6, "m": 5, "n": 3, "k": 7}


def test_product_with_a_vector_has_one_column() -> None:
    assert multiplied((5, 7), (7,)) == {"b": 1, "m": 5, "n": 1, "k": 7}


def test_transposed_gemm_has_the_dimensions_it_multiplies() -> None:
    made = model([node("Gemm", "x w b", "y", transB=1)], {"x": ["n", 64]}, [weight("w", [10, 64]), weight("b", [10])])
    found = only(extracted(made, batch_size=16), "onnx::Gemm")
    assert (found.flops, found.dims) == (2 * 16 * 10 * 64, {"b": 1, "m": 16, "n": 10, "k": 64})
    assert found.dtype == "fp32"


@pytest.mark.parametrize(
    ("equation", "shapes", "dims"),
    [
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], {"b": 2, "m": 3, "n": 5, "k": 4}),
        ("bhid, bhjd -> bhij", [(2, 3, 4, 5), (2, 3, 6, 5)], {"b": 6, "m": 4, "n": 6, "k": 5}),
        ("...ij,jk", [(2, 3, 4), (4, 5)], {"b": 1, "m": 6, "n": 5, "k": 4}),
        ("i,i->", [(7,), (7,)], {"b": 1, "m": 1, "n": 1, "k": 7}),
    ],
)
def test_einsum_is_a_product(equation: str, shapes: list[tuple[int, ...]], dims: dict[str, int]) -> None:
    inputs = dict(zip("ab", shapes, strict=True))
    made = model([node("Einsum", "a b", "y", equation=equation)], inputs)
    found = only(extracted(made, batch_size=shapes[0][0]), "onnx::Einsum")
    assert (found.operator_class, found.dims) == (OperatorClass.MATMUL, dims)
    assert found.flops == 2 * dims["b"] * dims["m"] * dims["n"] * dims["k"]


def test_einsum_that_sums_nothing_is_elementwise() -> None:
    made = model([node("Einsum", "a b", "y", equation="i,j->ij")], {"a": [3], "b": [4]})
    assert only(extracted(made, batch_size=3), "onnx::Einsum").operator_class is OperatorClass.ELEMENTWISE


@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layer_is_one_fused_operator_per_direction(operator: str, gates: int) -> None:
    found = only(recurrent(operator, gates), f"onnx::{operator}")
    assert (found.repeat, found.kernels) == (2, 7 + 2)
    assert found.flops == 2 * (7 * 5) * (gates * 20) * (12 + 20)
    assert found.dims == {"b": 5, "t": 7, "i": 12, "h": 20}


def test_recurrent_steps_wait_for_one_another() -> None:
    assert recurrent("LSTM", 4).critical_path_operators == 2 * (7 + 2)


def test_attention_operator_counts_two_products() -> None:
    inputs = {name: [2, 4, size, 8] for name, size in (("q", 10), ("k", 12), ("v", 12))}
    found = only(extracted(model([node("Attention", "q k v", "y")], inputs, opset=23), batch_size=2), "onnx::Attention")
    assert (found.operator_class, found.flops) == (OperatorClass.ATTENTION, 2 * 2 * 2 * 4 * 10 * 12 * 8)
    assert found.dims == {"b": 2, "heads": 4, "q": 10, "k": 12, "d": 8}


def test_attention_of_onnx_runtime_counts_its_projection_too() -> None:
    made = contributed_attention()
    found = [op for op in extracted(made, batch_size=2).operators if op.name == "com.microsoft::Attention"]
    assert [op.operator_class for op in found] == [OperatorClass.MATMUL, OperatorClass.ATTENTION]
    assert [op.flops for op in found] == [2 * 20 * 32 * 96, 4 * 2 * 4 * 10 * 10 * 8]


def contributed_attention() -> onnx.ModelProto:
    made = node("Attention", "x w b", "y", domain="com.microsoft", num_heads=4)
    return model([made], {"x": [2, 10, 32]}, [weight("w", [32, 96]), weight("b", [96])])


def test_lookup_in_a_table_of_weights_reads_what_it_picks() -> None:
    made = model([node("Gather", "w x", "y")], [tensor("x", ["n", 7], "int64")], [weight("w", [1000, 16])])
    found = only(extracted(made, batch_size=3), "onnx::Gather")
    assert found.operator_class is OperatorClass.EMBEDDING
    assert (found.bytes_read, found.bytes_written) == (21 * 8 + 21 * 64, 21 * 64)


def test_lookup_in_activations_is_sparse() -> None:
    made = model([node("Gather", "x i", "y")], [tensor("x", [5, 4]), tensor("i", [2], "int64")])
    assert only(extracted(made, batch_size=5), "onnx::Gather").operator_class is OperatorClass.SPARSE


def test_quantized_product_is_int8() -> None:
    settings = [constant("s", 0.5), constant("z", np.uint8(0))]
    made = node("QLinearMatMul", "x s z w s z s z", "y")
    found = extracted(
        model([made], [tensor("x", ["n", 64], "uint8")], [*settings, weight("w", [64, 10], "uint8")]), batch_size=4
    )
    product = only(found, "onnx::QLinearMatMul")
    assert (product.dtype, product.flops) == ("int8", 2 * 4 * 64 * 10)
    assert (found.parameters, found.parameter_bytes, found.precision) == (640, 640, "int8")


def test_quantized_convolution_is_int8() -> None:
    zero = constant("z", np.uint8(0))
    made = node("QLinearConv", "x s z w s z s z b", "y")
    weights = [constant("s", 0.5), zero, weight("w", [8, 4, 3, 3], "uint8"), weight("b", [8], "int32")]
    found = extracted(model([made], [tensor("x", ["n", 4, 9, 9], "uint8")], weights), batch_size=2)
    assert only(found, "onnx::QLinearConv").dtype == "int8"
    assert found.parameters == 8 * 4 * 9 + 8


def quantized_chain() -> onnx.ModelProto:
    """A product, a ReLU and a product as files write them for int8."""
    nodes = [
        node("QuantizeLinear", "x s z", "xq"),
        node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "w1 s z", "w1d"),
        node("MatMul", "xd w1d", "h"),
        node("QuantizeLinear", "h s z", "hq"),
        node("DequantizeLinear", "hq s z", "hd"),
        node("DequantizeLinear", "w2 s z", "w2d"),
        node("MatMul", "hd w2d", "o"),
        node("Relu", "o", "y"),
    ]
    weights = [
        constant("s", 0.5),
        constant("z", np.int8(0)),
        weight("w1", [64, 32], "int8"),
        weight("w2", [32, 8], "int8"),
    ]
    return model(nodes, {"x": ["n", 64]}, weights)


def test_products_between_dequantized_tensors_are_int8() -> None:
    found = extracted(quantized_chain(), batch_size=4)
    first, second = [op for op in found.operators if op.operator_class is OperatorClass.MATMUL]
    assert (first.dtype, second.dtype, found.precision) == ("int8", "int8", "int8")
    assert (first.bytes_read, first.bytes_written) == (4 * 64 + 64 * 32, 4 * 32)
    assert (second.bytes_read, second.bytes_written) == (4 * 32 + 32 * 8, 4 * 4 * 8)
    assert [op.name for op in found.operators] == ["onnx::QuantizeLinear", "onnx::MatMul", "onnx::MatMul", "onnx::Relu"]
    assert (found.parameters, found.parameter_bytes) == (64 * 32 + 32 * 8, 64 * 32 + 32 * 8)


def test_training_with_quantization_in_the_graph_computes_in_fp32() -> None:
    found = extracted(quantized_chain(), batch_size=4, mode="Training")
    assert {op.dtype for op in found.operators if op.operator_class is OperatorClass.MATMUL} == {"fp32"}


def test_dequantized_tensor_that_another_operator_reads_is_dequantized() -> None:
    nodes = [
        node("DequantizeLinear", "x s z", "d"),
        node("MatMul", "d d", "m"),
        node("Relu", "d", "r"),
        node("Add", "m r", "y"),
    ]
    made = model(nodes, [tensor("x", [8, 8], "int8")], [constant("s", 0.5), constant("z", np.int8(0))])
    found = extracted(made, batch_size=8)
    assert only(found, "onnx::MatMul").dtype == "int8"
    assert only(found, "onnx::DequantizeLinear").kernels == 1


@pytest.mark.parametrize(
    ("operator", "attributes", "cls"),
    [
        ("Relu", {}, "elementwise"),
        ("Softmax", {}, "reduction"),
        ("ReduceMean", {"axes": [1]}, "reduction"),
        ("GlobalAveragePool", {}, "pool"),
        ("MaxPool", {"kernel_shape": [2, 2]}, "pool"),
        ("LRN", {"size": 3}, "norm"),
        ("Transpose", {}, "copy"),
        ("NonZero", {}, "sparse"),
        ("DepthToSpace", {"blocksize": 2}, "copy"),
    ],
)
def test_operator_has_a_class(operator: str, attributes: dict[str, Any], cls: str) -> None:
    made = model([node(operator, "x", "y", **attributes)], {"x": [2, 4, 6, 6]})
    found = only(
        extracted(made, batch_size=2, shapes={"y": (4, 9)} if operator == "NonZero" else {}), f"onnx::{operator}"
    )
    assert found.operator_class == cls


def test_resize_and_topk_take_their_sizes_from_constants() -> None:
    nodes = [node("Resize", "x - scales", "y"), node("TopK", "y k", "values indices")]
    made = model(nodes, {"x": ["n", 4, 6, 6]}, [constant("scales", [1.0, 1.0, 2.0, 2.0]), constant("k", [5])])
    found = extracted(made, batch_size=2)
    assert only(found, "onnx::Resize").output_elements == 2 * 4 * 12 * 12
    assert only(found, "onnx::TopK").output_elements == 2 * (2 * 4 * 12 * 5)


def test_renaming_launches_nothing() -> None:
    nodes = [
        node("Flatten", "x", "a"),
        node("Unsqueeze", "a axes", "b"),
        node("Identity", "b", "c"),
        node("Relu", "c", "y"),
    ]
    found = extracted(model(nodes, {"x": [2, 3, 4]}, [constant("axes", [0])]), batch_size=2)
    assert {op.name: op.kernels for op in found.operators} == {
        "onnx::Flatten": 0,
        "onnx::Unsqueeze": 0,
        "onnx::Identity": 0,
        "onnx::Relu": 1,
    }
    assert found.critical_path_operators == 1


def test_what_only_shapes_decide_is_not_run() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 rest", "target", axis=0),
        node("Reshape", "x target", "y"),
        node("Relu", "y", "z"),
    ]
    weights = [constant("zero", 0), constant("axes", [0]), constant("rest", [-1])]
    found = extracted(model(nodes, {"x": ["n", 3, 4]}, weights), batch_size=2)
    assert [op.name for op in found.operators] == ["onnx::Reshape", "onnx::Relu"]
    assert found.operators[1].output_elements == 24


def test_what_only_weights_decide_is_not_run() -> None:
    nodes = [node("Transpose", "w", "t"), node("MatMul", "x t", "y")]
    found = extracted(model(nodes, {"x": ["n", 64]}, [weight("w", [10, 64])]), batch_size=2)
    assert [op.name for op in found.operators] == ["onnx::MatMul"]
    assert found.parameters == 640


def test_unknown_operator_is_counted_and_named() -> None:
    nodes = [node("Relu", "x", "a"), node("Fancy", "a", "b", domain="own"), node("Relu", "b", "y")]
    made = model(nodes, {"x": ["n", 8]})
    made.graph.value_info.append(tensor("b", ["n", 8]))
    found = extracted(made, batch_size=4)
    assert found.coverage.unknown == {"own::Fancy": 1}
    assert found.coverage.flops_percent == pytest.approx(100 * 64 / 96, abs=0.01)
    assert only(found, "own::Fancy").bytes_read == 4 * 32


def test_settings_and_statistics_are_no_parameters() -> None:
    names = ["scale", "bias", "mean", "var"]
    nodes = [node("BatchNormalization", "x scale bias mean var", "a"), node("Clip", "a low high", "y")]
    limits = [constant("low", 0.0), constant("high", 6.0)]
    found = extracted(model(nodes, {"x": ["n", 8, 4, 4]}, [*(weight(n, [8]) for n in names), *limits]), batch_size=2)
    assert found.parameters == 16


def test_sequences_of_tensors_have_no_shape_until_one_is_taken() -> None:
    nodes = [
        node("SequenceConstruct", "x x", "s"),
        node("SequenceInsert", "s x", "t"),
        node("ConcatFromSequence", "t", "c", axis=0),
        node("Relu", "c", "y"),
    ]
    made = model(nodes, {"x": ["n", 4]})
    with pytest.raises(errors.InvalidInputError, match=r"'onnx::ConcatFromSequence': .*--input-shape c=SIZES"):
        extracted(made, batch_size=2)
    assert only(extracted(made, batch_size=2, shapes={"c": (6, 4)}), "onnx::Relu").output_elements == 24


def test_scalar_beside_the_data_is_no_batch() -> None:
    made = model([node("Mul", "a b", "c"), node("Relu", "c", "y")], {"a": [], "b": []})
    assert extracted(made, batch_size=8).operators[0].output_elements == 1
