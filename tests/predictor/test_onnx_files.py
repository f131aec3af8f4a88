"""Whole ONNX files: published networks, what leaves a shape open, and what cannot be used."""

from pathlib import Path
from typing import Any

import onnx
import onnx.defs
import pytest

from cotenant_api import errors
from cotenant_api.graph import Graph, OperatorClass
from cotenant_predictor.extraction.onnx_reader import document
from predictor_kit.onnx_models import constant, extracted, model, node, only, tensor, weight

# Multiply-adds in units of 10^9 of one image, and parameters, as published for these networks.
PUBLISHED = {
    "bvlc_alexnet": (0.65, 60_965_224),
    "resnet50": (4.09, 25_557_032),
    "squeezenet": (0.349, 1_235_496),
    "vgg19": (19.63, 143_667_240),
}
# Of these, files leave out the affine part of the normalization, so that only the work is as published.
SAME_WORK = {"densenet121": 2.83, "inception_v1": 1.43, "inception_v2": 2.02}


def published(name: str) -> Graph:
    """A network that comes with onnx, its weights replaced by constants."""
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    return extracted(path.read_bytes())


def multiply_adds(found: Graph) -> float:
    matrix = (OperatorClass.CONV, OperatorClass.MATMUL)
    return sum(op.flops * op.repeat for op in found.operators if op.operator_class in matrix) / 2e9


def perceptron(*dims: int | str | None, opset: int = 17) -> onnx.ModelProto:
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "y")]
    return model(nodes, {"x": list(dims)}, [weight("w", [64, 10])], opset=opset)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_work_and_parameters_of_a_network_are_as_published(name: str) -> None:
    work, parameters = PUBLISHED[name]
    found = published(name)
    assert multiply_adds(found) == pytest.approx(work, rel=0.02)
    assert found.parameters == parameters
    assert found.coverage.unknown == {}


@pytest.mark.parametrize("name", sorted(SAME_WORK))
def test_work_of_a_network_is_as_published(name: str) -> None:
    assert multiply_adds(published(name)) == pytest.approx(SAME_WORK[name], rel=0.02)


def test_same_file_gives_the_same_document() -> None:
    assert published("squeezenet") == published("squeezenet")


@pytest.mark.parametrize(
    "dims", [("batch_size", 64), ("N", 64), ("anything", 64), (None, 64), (-1, 64), (0, 64), (8, 64)]
)
def test_open_first_dimension_is_the_batch(dims: tuple[Any, ...]) -> None:
    found = extracted(perceptron(*dims), batch_size=8)
    assert found.batch_size == 8
    assert only(found, "onnx::MatMul").dims["m"] == 8
    assert found.input_bytes_per_step == 4 * 8 * 64


def test_dimension_named_after_the_batch_is_it_wherever_it_stands() -> None:
    made = model(
        [node("LSTM", "x w r", "y", hidden_size=4)],
        {"x": [7, "batch", 8]},
        [weight("w", [1, 16, 8]), weight("r", [1, 16, 4])],
    )
    assert only(extracted(made, batch_size=5), "onnx::LSTM").dims["b"] == 5


def test_open_dimension_beside_the_batch_is_asked_for() -> None:
    with pytest.raises(
        errors.InvalidInputError, match=r"m\.onnx: input 'x', axis 1: 'seq': .*--input-shape x=2,SIZE,64"
    ):
        extracted(perceptron("batch", "seq", 64), batch_size=2)


def test_declared_shape_stands_above_the_file() -> None:
    found = extracted(perceptron("batch", "seq", 64), batch_size=2, shapes={"x": (2, 9, 64)})
    assert only(found, "onnx::MatMul").dims["m"] == 18


def test_name_of_a_dimension_is_the_same_size_everywhere() -> None:
    nodes = [node("Concat", "a b", "c", axis=1), node("Relu", "c", "y")]
    found = extracted(model(nodes, {"a": ["batch", "seq"], "b": ["batch", "seq"]}), batch_size=2, shapes={"a": (2, 9)})
    assert only(found, "onnx::Relu").output_elements == 36


def test_dimension_is_declared_by_its_name() -> None:
    nodes = [node("Concat", "past x", "c", axis=1), node("Relu", "c", "y")]
    made = model(
        nodes, {"past": ["batch", "past_length"], "x": ["batch", "length"], "mask": ["batch", "past_length + 1"]}
    )
    shapes = {"past_length": (7,), "past_length + 1": (8,), "length": (1,)}
    assert only(extracted(made, batch_size=2, shapes=shapes), "onnx::Relu").output_elements == 16


def test_what_is_computed_from_the_batch_is_not_the_batch() -> None:
    made = model([node("Relu", "x", "y")], {"x": ["batch_size * heads", "batch_size"]})
    with pytest.raises(
        errors.InvalidInputError, match=r"axis 0: 'batch_size \* heads': .*or --input-shape batch_size \* heads=SIZE"
    ):
        extracted(made, batch_size=2)


def test_declared_shape_of_another_batch_is_refused() -> None:
    with pytest.raises(
        errors.InvalidInputError, match=r"^--input-shape: 4: gives 'batch' this size, but --batch-size is 2"
    ):
        extracted(perceptron("batch", 64), batch_size=2, shapes={"x": (4, 64)})


def test_file_of_another_fixed_batch_is_refused_with_the_shape_to_declare() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"fixes another batch.*--input-shape x=32,64"):
        extracted(perceptron(1, 64), batch_size=32)


def test_declared_shape_of_nothing_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"^--input-shape: 'z': names no input"):
        extracted(perceptron("n", 64), shapes={"z": (1,)})


def test_declared_shape_of_another_rank_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"^--input-shape x: \[1, 2, 64\]: the input has 2 dimensions"):
        extracted(perceptron("n", 64), shapes={"x": (1, 2, 64)})


@pytest.mark.parametrize("batch", [0, -1])
def test_batch_below_one_is_refused(batch: int) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"^--batch-size: .* must be 1 or more"):
        extracted(perceptron("n", 64), batch_size=batch)


@pytest.mark.parametrize("size", [2**40, 2**62])
def test_batch_that_no_gpu_holds_is_refused(size: int) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"at most \d+ elements"):
        extracted(perceptron("n", 64), batch_size=size)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_truncated_file_is_refused(share: float) -> None:
    data = perceptron("n", 64).SerializeToString()
    with pytest.raises(errors.InvalidInputError, match=r"^m\.onnx: .*truncated or of another format"):
        extracted(data[: int(share * len(data))])


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04abc", b"{}", b"\x80\x02}q\x00.", b"\x00" * 100, b"hello world"])
def test_file_of_another_format_is_refused(data: bytes) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"^m\.onnx: .*truncated or of another format"):
        extracted(data)


@pytest.mark.parametrize("opset", [1, 6, 9999])
def test_opset_that_is_not_known_is_refused(opset: int) -> None:
    with pytest.raises(errors.InvalidInputError, match=rf"^m\.onnx: opset: {opset}: .* reads 7 to \d+"):
        extracted(perceptron("n", 64, opset=opset))


@pytest.mark.parametrize("opset", range(7, onnx.defs.onnx_opset_version() + 1))
def test_every_opset_since_7_is_read(opset: int) -> None:
    assert multiply_adds(extracted(perceptron("n", 64, opset=opset), batch_size=5)) == 5 * 640 / 1e9


def test_node_that_reads_what_nothing_gives_is_named() -> None:
    nodes = [node("Add", "x b", "a"), node("Relu", "a", "b")]
    with pytest.raises(errors.InvalidInputError, match=r"node 0 'Add_a': 'b': .*has a cycle or lacks an initializer"):
        extracted(model(nodes, {"x": ["n", 4]}))


def test_output_that_nothing_gives_is_named() -> None:
    made = perceptron("n", 64)
    made.graph.output[0].name = "z"
    with pytest.raises(errors.InvalidInputError, match="the output of the graph: 'z': nothing before it gives this"):
        extracted(made)


def test_node_that_does_not_fit_its_inputs_is_named_with_their_shapes() -> None:
    with pytest.raises(
        errors.InvalidInputError, match=r"node 0 'MatMul_h': 'onnx::MatMul': .*shapes \[2, 65\], \[64, 10\]"
    ):
        extracted(perceptron("n", 65), batch_size=2)


def test_operator_that_its_opset_lacks_is_named() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"'onnx::Conv9': .*is no operator of opset 17"):
        extracted(model([node("Conv9", "x", "y")], {"x": ["n", 4]}))


def test_shape_that_data_decides_is_asked_for() -> None:
    made = model([node("NonZero", "x", "where"), node("Transpose", "where", "y")], {"x": ["n", 4]})
    with pytest.raises(
        errors.InvalidInputError, match=r"'onnx::NonZero': .*depends on data.*--input-shape where=SIZES"
    ):
        extracted(made)
    assert only(extracted(made, shapes={"where": (2, 3)}), "onnx::Transpose").output_elements == 6


def test_unknown_operator_without_shape_is_asked_for() -> None:
    made = model([node("Fancy", "x", "a", domain="own"), node("Relu", "a", "y")], {"x": ["n", 4]})
    with pytest.raises(errors.InvalidInputError, match=r"node 0 'Fancy_a': 'own::Fancy': .*--input-shape a=SIZES"):
        extracted(made)
    assert extracted(made, shapes={"a": (1, 4)}).coverage.unknown == {"own::Fancy": 1}


def test_weights_are_not_looked_for() -> None:
    made = perceptron("n", 64)
    assert made.graph.initializer[0].external_data[0].value == "not-there.bin"
    assert extracted(made).parameters == 640


def test_weight_whose_elements_do_not_fill_it_is_named() -> None:
    made = model([node("Add", "x b", "y")], {"x": ["n", 4]}, [constant("b", [1.0, 2.0, 3.0, 4.0])])
    made.graph.initializer[0].raw_data = b"123"
    with pytest.raises(errors.InvalidInputError, match="initializer: 'b': its elements do not fill its shape"):
        extracted(made)


def test_negative_size_of_a_weight_is_refused() -> None:
    made = perceptron("n", 64)
    made.graph.initializer[0].dims[0] = -64
    with pytest.raises(errors.InvalidInputError, match=r"m\.onnx: w: \[-64, 10\]: no tensor has this shape"):
        extracted(made)


def test_graph_that_depends_on_no_input_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="must have nodes that depend on an input"):
        extracted(model([node("Relu", "w", "y")], [tensor("x", ["n"])], [weight("w", [10])]))


def test_type_below_fp32_is_the_documents_precision() -> None:
    made = model([node("MatMul", "x w", "y")], [tensor("x", ["n", 64], "fp16")], [weight("w", [64, 10], "fp16")])
    found = extracted(made)
    assert (found.precision, found.parameter_bytes) == ("fp16", 2 * 640)


def test_inference_in_a_lower_precision_is_the_converted_file() -> None:
    found = extracted(perceptron("n", 64), precision="bf16")
    assert {op.dtype for op in found.operators} == {"bf16"}
    assert (found.parameter_bytes, found.precision) == (2 * 640, "bf16")


def test_products_are_tf32_when_asked() -> None:
    assert only(extracted(perceptron("n", 64), precision="tf32"), "onnx::MatMul").dtype == "tf32"


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"none\.onnx': cannot be read: No such file"):
        document.read(tmp_path / "none.onnx")


def test_file_that_protobuf_cannot_hold_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(document.MAX_FILE_BYTES + 1)
    with pytest.raises(errors.InvalidInputError, match="at most 2 GiB: save it with external data"):
        document.read(path)
