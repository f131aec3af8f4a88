"""Attention that an ONNX file has in its parts."""

import numpy as np
import onnx
import pytest

from cotenant_api.graph import Graph, OperatorClass, Phase
from predictor_kit.onnx_models import constant, extracted, model, node, only, tensor, weight

QUERY, KEY, VALUE = [2, 4, 10, 8], [2, 4, 8, 12], [2, 4, 12, 16]


def attended(
    *between: onnx.NodeProto, after: tuple[onnx.NodeProto, ...] = (), last: str = "p", **options: object
) -> Graph:
    """Scores, what stands between them and the softmax (reads `s`, writes `t`), the softmax, and the values."""
    scores = "t" if between else "s"
    nodes = [node("MatMul", "q k", "s"), *between, node("Softmax", scores, "p", axis=-1), *after]
    nodes += [node("MatMul", f"{last} v", "y"), node("Relu", "y", "z")]
    inputs = [tensor("q", QUERY), tensor("k", KEY), tensor("v", VALUE), tensor("mask", [2, 1, 10, 12], "bool")]
    constants = [constant("scale", 0.125), constant("low", -1e9), constant("zero", 0.0), constant("ratio", 0.1)]
    return extracted(model(nodes, inputs, constants), batch_size=2, **options)


def names(found: Graph) -> list[str]:
    return [op.name for op in found.operators]


def test_products_around_a_softmax_are_one_operator() -> None:
    found = only(attended(), "onnx::Attention")
    assert found.operator_class is OperatorClass.ATTENTION
    assert found.dims == {"b": 2, "heads": 4, "q": 10, "k": 12, "d": 8}
    assert found.bytes_read == 4 * 2 * 4 * (10 * 8 + 12 * 8 + 12 * 16)
    assert found.bytes_written == 4 * 2 * 4 * 10 * 16
    assert names(attended()) == ["onnx::Attention", "onnx::Relu"]


def test_scaling_and_masking_are_a_part_of_it() -> None:
    steps = [node("Mul", "s scale", "s1"), node("Where", "mask s1 low", "t")]
    found = attended(*steps)
    assert names(found) == ["onnx::Attention", "onnx::Relu"]
    assert only(found, "onnx::Attention").bytes_read - only(attended(), "onnx::Attention").bytes_read == 2 * 10 * 12


def test_dropout_and_rows_of_nothing_are_a_part_of_it() -> None:
    steps = (node("IsNaN", "p", "n"), node("Where", "n zero p", "w"), node("Dropout", "w ratio", "d"))
    assert names(attended(after=steps, last="d")) == ["onnx::Attention", "onnx::Relu"]


def test_scores_that_something_else_reads_are_written() -> None:
    found = attended(node("Mul", "s scale", "t"), node("Neg", "s", "other"))
    assert "onnx::Attention" not in names(found)
    assert names(found).count("onnx::MatMul") == 2


def test_shares_that_something_else_reads_are_written() -> None:
    assert "onnx::Attention" not in names(attended(after=(node("Neg", "p", "other"),)))


def test_softmax_along_another_axis_is_no_attention() -> None:
    nodes = [node("MatMul", "q k", "s"), node("Softmax", "s", "p", axis=1), node("MatMul", "p v", "y")]
    found = extracted(model(nodes, {"q": QUERY, "k": KEY, "v": VALUE}), batch_size=2)
    assert "onnx::Attention" not in names(found)


def test_softmax_between_layers_is_no_attention() -> None:
    nodes = [node("MatMul", "x w1", "s"), node("Softmax", "s", "p"), node("MatMul", "p w2", "y")]
    made = model(nodes, {"x": ["n", 5, 8]}, [weight("w1", [8, 12]), weight("w2", [12, 4])])
    assert names(extracted(made, batch_size=2)) == ["onnx::MatMul", "onnx::Softmax", "onnx::MatMul"]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_it_computes_its_scores_again_backward(precision: str) -> None:
    nodes = [
        node("MatMul", "q w", "u"),
        node("MatMul", "u k", "s"),
        node("Softmax", "s", "p"),
        node("MatMul", "p v", "y"),
    ]
    made = model(nodes, {"q": QUERY, "k": KEY, "v": VALUE}, [weight("w", [8, 8])])
    found = extracted(made, batch_size=2, mode="Training", precision=precision)
    forward, backward = [op for op in found.operators if op.operator_class is OperatorClass.ATTENTION]
    assert (backward.phase, backward.flops) == (Phase.BACKWARD, 5 * forward.flops // 2)
    assert forward.dtype == precision


def test_work_is_that_of_its_parts() -> None:
    parts = attended(node("Neg", "s", "other"), node("Mul", "s scale", "t"))
    products = sum(op.flops * op.repeat for op in parts.operators if op.operator_class is OperatorClass.MATMUL)
    assert products == 2 * 2 * 4 * 10 * 12 * (8 + 16)
    joint = only(attended(), "onnx::Attention").flops
    assert joint == 2 * 2 * np.prod([2, 4, 10, 12, 8])  # values are taken to be as wide as keys
