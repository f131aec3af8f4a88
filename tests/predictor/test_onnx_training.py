"""A training step that is derived from a forward graph in an ONNX file."""

import pytest

from cotenant_api import errors
from cotenant_api.graph import Graph, Operator, OperatorClass, Phase
from predictor_kit.onnx_models import extracted, model, node, only, tensor, weight


def perceptron(**options: object) -> Graph:
    nodes = [node("Gemm", "x w1 b1", "h", transB=1), node("Relu", "h", "a"), node("Gemm", "a w2 b2", "y", transB=1)]
    weights = [weight("w1", [128, 64]), weight("b1", [128]), weight("w2", [32, 128]), weight("b2", [32])]
    return extracted(model(nodes, {"x": ["n", 64]}, weights), batch_size=16, mode="Training", **options)


def convolutions(**options: object) -> Graph:
    nodes = [
        node("Conv", "x w1", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c s b m v", "n"),
        node("Relu", "n", "r"),
        node("Conv", "r w2", "d", pads=[1, 1, 1, 1]),
        node("Add", "d r", "y"),
    ]
    weights = [weight("w1", [8, 4, 3, 3]), weight("w2", [8, 8, 3, 3]), *(weight(name, [8]) for name in "sbmv")]
    return extracted(model(nodes, {"x": ["n", 4, 9, 9]}, weights), batch_size=2, mode="Training", **options)


def of(found: Graph, phase: Phase, cls: OperatorClass) -> list[Operator]:
    return [op for op in found.operators if op.phase is phase and op.operator_class is cls]


def work(operators: list[Operator]) -> int:
    return sum(op.flops * op.repeat for op in operators)


def test_step_has_every_phase() -> None:
    assert {op.phase for op in perceptron().operators} == set(Phase)


def test_product_has_one_backward_for_each_side_that_learns() -> None:
    backward = of(perceptron(), Phase.BACKWARD, OperatorClass.MATMUL)
    sizes = [(op.dims["m"], op.dims["n"], op.dims["k"]) for op in backward]
    assert sizes == [(16, 128, 32), (32, 128, 16), (128, 64, 16)]  # the input needs no gradient


def test_convolution_is_one_operator_backward_of_twice_the_work() -> None:
    found = convolutions()
    forward, backward = (of(found, phase, OperatorClass.CONV) for phase in (Phase.FORWARD, Phase.BACKWARD))
    first, second = 2 * 2 * 8 * 81 * 36, 2 * 2 * 8 * 81 * 72
    assert work(forward) == first + second
    assert work(backward) == first + 2 * second  # the input needs no gradient
    assert {op.dims["k"] for op in backward} == {8}


def test_activations_that_the_backward_pass_needs_are_kept_once() -> None:
    assert perceptron().saved_activation_bytes == 4 * 16 * 128  # the ReLU's output, needed twice
    assert convolutions().saved_activation_bytes == 2 * 4 * 2 * 8 * 81  # the norm's input and the ReLU's output


def test_renamed_activations_are_kept_once() -> None:
    nodes = [
        node("MatMul", "x w1", "h"),
        node("Relu", "h", "a"),
        node("Flatten", "a", "f"),
        node("MatMul", "f w2", "y"),
    ]
    weights = [weight("w1", [64, 64]), weight("w2", [64, 8])]
    found = extracted(model(nodes, {"x": ["n", 64]}, weights), batch_size=16, mode="Training")
    assert found.saved_activation_bytes == 4 * 16 * 64


def test_gradients_of_what_is_read_twice_are_added_up() -> None:
    added = [op for op in convolutions().operators if op.phase is Phase.BACKWARD and op.name == "onnx::Add"]
    assert [(op.operator_class, op.bytes_written) for op in added] == [(OperatorClass.ELEMENTWISE, 4 * 2 * 8 * 81)]


def test_statistics_of_a_batch_take_a_pass_of_their_own() -> None:
    (norm,) = of(convolutions(), Phase.FORWARD, OperatorClass.NORM)
    assert norm.bytes_read == 2 * 4 * (2 * 8 * 81 + 4 * 8)


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [("sgd", 0), ("sgd:momentum=0.9", 1), ("sgd:momentum=0", 0), ("adam", 2), ("AdamW", 2), ("rmsprop", 1), (None, 2)],
)
def test_optimizer_is_one_sweep_over_weights_gradients_and_state(optimizer: str | None, states: int) -> None:
    found = perceptron(optimizer=optimizer)
    (sweep,) = [op for op in found.operators if op.phase is Phase.OPTIMIZER]
    size = found.parameter_bytes
    assert found.optimizer == (optimizer or "adamw").partition(":")[0].lower()
    assert sweep.dims == {"tensors": 4, "stateBytes": states * size, "gradientBytes": size}
    assert (sweep.bytes_read, sweep.bytes_written) == ((2 + states) * size, (1 + states) * size)


def test_optimizer_whose_state_is_not_known_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"^--optimizer: 'shampoo': .* one of sgd, adam"):
        perceptron(optimizer="shampoo")


def test_recurrent_layer_works_twice_backward() -> None:
    weights = [weight("w", [1, 80, 12]), weight("r", [1, 80, 20])]
    made = model([node("LSTM", "x w r", "y", hidden_size=20)], {"x": [7, "batch", 12]}, weights)
    found = extracted(made, batch_size=5, mode="Training")
    forward, backward = [op for op in found.operators if op.operator_class is OperatorClass.RNN]
    assert (backward.phase, backward.flops, backward.kernels) == (Phase.BACKWARD, 2 * forward.flops, 7 + 4)


def test_attention_computes_its_scores_again_backward() -> None:
    nodes = [node("MatMul", "x w", "q"), node("Attention", "q x x", "y")]
    made = model(nodes, {"x": ["batch", 4, 10, 8]}, [weight("w", [8, 8])], opset=23)
    forward, backward = [
        op
        for op in extracted(made, batch_size=2, mode="Training").operators
        if op.operator_class is OperatorClass.ATTENTION
    ]
    assert backward.flops == 5 * forward.flops // 2


def test_table_of_weights_is_written_whole_backward() -> None:
    made = model([node("Gather", "w x", "y")], [tensor("x", ["n", 7], "int64")], [weight("w", [1000, 16])])
    (backward,) = of(extracted(made, batch_size=3, mode="Training"), Phase.BACKWARD, OperatorClass.EMBEDDING)
    assert backward.bytes_written == 4 * 1000 * 16


def test_what_no_gradient_passes_has_no_backward() -> None:
    nodes = [node("MatMul", "x w", "h"), node("ArgMax", "h", "i"), node("Cast", "i", "y", to=1)]
    found = extracted(model(nodes, {"x": ["n", 64]}, [weight("w", [64, 10])]), batch_size=2, mode="Training")
    assert {op.name for op in found.operators if op.phase is Phase.BACKWARD} == {"onnx::MatMul"}


def test_inference_has_a_forward_phase_alone() -> None:
    made = model([node("MatMul", "x w", "y")], {"x": ["n", 64]}, [weight("w", [64, 10])])
    found = extracted(made)
    assert {op.phase for op in found.operators} == {Phase.FORWARD}
    assert (found.optimizer, found.saved_activation_bytes) == (None, 0)


def test_runtime_launches_inference_and_a_framework_training() -> None:
    made = model([node("MatMul", "x w", "y")], {"x": ["n", 64]}, [weight("w", [64, 10])])
    assert extracted(made).compiled
    assert not extracted(made, mode="Training").compiled


def test_mixed_precision_casts_products_and_keeps_weights() -> None:
    found = perceptron(precision="bf16")
    assert {op.dtype for op in found.operators if op.operator_class is OperatorClass.MATMUL} == {"bf16"}
    casts = [op for op in found.operators if op.name == "onnx::Cast" and op.phase is Phase.FORWARD]
    assert sum(op.repeat for op in casts) == 1 + 4  # the input, and each weight once
    assert found.parameter_bytes == 4 * found.parameters
    assert only(found, "optimizer::adamw").dtype == "fp32"


def test_mixed_precision_keeps_sums_in_fp32() -> None:
    nodes = [node("MatMul", "x w", "h"), node("Softmax", "h", "s"), node("Relu", "s", "y")]
    made = model(nodes, {"x": ["n", 64]}, [weight("w", [64, 10])])
    found = extracted(made, mode="Training", precision="fp16")
    types = {op.name: op.dtype for op in found.operators if op.phase is Phase.FORWARD}
    assert types == {"onnx::Cast": "fp32", "onnx::MatMul": "fp16", "onnx::Softmax": "fp32", "onnx::Relu": "fp32"}
