"""Functions, branches and loops in an ONNX file: which nodes count, and how often."""

from typing import Any

import onnx
import pytest

from cotenant_api import errors
from cotenant_api.graph import Graph
from predictor_kit.onnx_models import constant, extracted, graph, model, node, only, tensor, weight


def function(name: str, *nodes: onnx.NodeProto, attributes: tuple[str, ...] = ()) -> onnx.FunctionProto:
    """A function of `a` that gives `b`."""
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)]
    return onnx.helper.make_function("own", name, ["a"], ["b"], list(nodes), opsets, list(attributes))


def looped(trips: onnx.TensorProto | None, *, shapes: dict[str, tuple[int, ...]] | None = None) -> Graph:
    """A product that a loop runs, carrying its rows and stacking them."""
    nodes = [node("Identity", "more", "more2"), node("MatMul", "v w", "v2")]
    entries = [tensor("i", [], "int64"), tensor("more", [], "bool"), tensor("v", [2, 8])]
    body = graph(nodes, entries, outputs=["more2", "v2", "v2"])
    loop = [node("Loop", "m - x", "y all", body=body), node("Relu", "all", "z")]
    weights = [weight("w", [8, 8]), *([trips] if trips else [])]
    inputs = [tensor("x", ["n", 8]), *([] if trips else [tensor("m", [], "int64")])]
    return extracted(model(loop, inputs, weights), batch_size=2, shapes=shapes or {})


def branched(condition: Any = None) -> Graph:
    """A cheap and a dear branch; `condition` is what chooses, None leaves it to the data."""
    cheap, dear = graph([node("Relu", "x", "a")], {}), graph([node("MatMul", "x w", "b")], {})
    nodes = [node("If", "c", "y", then_branch=cheap, else_branch=dear), node("Neg", "y", "z")]
    weights = [weight("w", [8, 8]), *([] if condition is None else [constant("c", condition)])]
    inputs = [tensor("x", ["n", 8]), *([tensor("c", [], "bool")] if condition is None else [])]
    return extracted(model(nodes, inputs, weights), batch_size=2)


def names(found: Graph) -> list[str]:
    return [op.name for op in found.operators]


def test_function_of_the_file_is_counted_by_its_nodes() -> None:
    twice = function("Twice", node("Mul", "a a", "c"), node("Elu", "c", "b"))
    found = extracted(model([node("Twice", "x", "y", domain="own")], {"x": ["n", 8]}, functions=[twice]))
    assert names(found) == ["onnx::Mul", "onnx::Elu"]


def test_function_is_given_the_attributes_of_its_call() -> None:
    inner = node("Concat", "a a", "b")
    inner.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="along", type=onnx.AttributeProto.INT))
    joined = function("Joined", inner, attributes=("along",))
    nodes = [node("Joined", "x", "y", domain="own", along=1), node("Softmax", "y", "z")]
    made = model(nodes, {"x": [2, 8]}, functions=[joined])
    assert only(extracted(made, batch_size=2), "onnx::Concat").output_elements == 32


def test_function_that_calls_itself_is_refused() -> None:
    endless = function("Endless", node("Endless", "a", "b", domain="own"))
    with pytest.raises(errors.InvalidInputError, match=r"'own::Endless': .*lie more than 40 deep, or call themselves"):
        extracted(model([node("Endless", "x", "y", domain="own")], {"x": ["n", 8]}, functions=[endless]))


def test_functions_that_double_one_another_are_bounded() -> None:
    made = [function("F0", node("Relu", "a", "b"))]
    for level in range(1, 39):
        call = [node(f"F{level - 1}", "a", "c", domain="own"), node(f"F{level - 1}", "c", "b", domain="own")]
        made.append(function(f"F{level}", *call))
    with pytest.raises(errors.InvalidInputError, match="must unfold to at most 10000 nodes"):
        extracted(model([node("F38", "x", "y", domain="own")], {"x": ["n", 8]}, functions=made))


def test_branch_that_a_constant_chooses_is_the_one_counted() -> None:
    assert names(branched([True])) == ["onnx::Relu", "onnx::Neg"]
    assert names(branched([False])) == ["onnx::MatMul", "onnx::Neg"]
    assert branched([True]).coverage.unknown == {}


def test_branch_that_data_chooses_is_the_dearer_one_and_named() -> None:
    found = branched()
    assert names(found) == ["onnx::MatMul", "onnx::Neg"]
    assert found.coverage.unknown == {"onnx::If": 1}


def test_loop_counts_its_body_as_often_as_it_says() -> None:
    found = looped(constant("m", 7))
    assert only(found, "onnx::MatMul").repeat == 7
    assert only(found, "onnx::Relu").output_elements == 7 * 2 * 8
    assert found.critical_path_operators == 7 + 1
    assert found.coverage.unknown == {}


def test_loop_of_no_trips_counts_nothing() -> None:
    assert [op.name for op in looped(constant("m", 0)).operators if op.kernels] == ["onnx::Relu"]


def test_loop_that_data_ends_counts_its_body_once_and_is_named() -> None:
    found = looped(None, shapes={"all": (3, 2, 8)})
    assert only(found, "onnx::MatMul").repeat == 1
    assert only(found, "onnx::Relu").output_elements == 48
    assert found.coverage.unknown == {"onnx::Loop": 1}


def test_loop_that_only_its_condition_ends_is_as_one_that_data_ends() -> None:
    found = looped(constant("m", 2**63 - 1), shapes={"all": (3, 2, 8)})
    assert found.coverage.unknown == {"onnx::Loop": 1}


def test_stack_of_unknown_height_is_asked_for() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"'onnx::Loop': .*how often it runs.*--input-shape all=SIZES"):
        looped(None)


def test_tensor_that_grows_from_trip_to_trip_is_asked_for() -> None:
    nodes = [node("Identity", "more", "more2"), node("Concat", "v v", "v2", axis=0)]
    entries = [tensor("i", [], "int64"), tensor("more", [], "bool"), tensor("v", [2, 8])]
    loop = node("Loop", "m - x", "y", body=graph(nodes, entries, outputs=["more2", "v2"]))
    made = model([loop, node("Relu", "y", "z")], {"x": ["n", 8]}, [constant("m", 3)])
    with pytest.raises(errors.InvalidInputError, match="--input-shape y=SIZES"):
        extracted(made, batch_size=2)


def test_loop_whose_body_runs_longer_than_any_step_is_refused() -> None:
    inner = [tensor("i", [], "int64"), tensor("more", [], "bool"), tensor("v", [2, 8])]
    body = graph([node("Identity", "more", "more2"), node("Relu", "v", "v2")], inner, outputs=["more2", "v2"])
    for _ in range(2):
        nodes = [node("Identity", "more", "more3"), node("Loop", "m more v", "v3", body=body)]
        body = graph(nodes, inner, outputs=["more3", "v3"])
    made = model([node("Loop", "m - x", "y", body=body)], {"x": ["n", 8]}, [constant("m", 10**6)])
    with pytest.raises(errors.InvalidInputError, match="more than any step: check its trip count"):
        extracted(made, batch_size=2)


def test_loop_whose_body_takes_other_values_is_refused() -> None:
    body = graph([node("Identity", "more", "more2")], [tensor("i", [], "int64"), tensor("more", [], "bool")])
    with pytest.raises(errors.InvalidInputError, match="its body takes other values than it is given"):
        extracted(model([node("Loop", "m - x", "y", body=body)], {"x": ["n", 8]}, [constant("m", 3)]))


def test_loop_without_a_body_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"lacks \['body'\]"):
        extracted(model([node("Loop", "m - x", "y")], {"x": ["n", 8]}, [constant("m", 3)]))


def test_scan_counts_its_body_once_for_every_slice() -> None:
    nodes = [node("MatMul", "s w", "s2"), node("Add", "s2 e", "o")]
    body = graph(nodes, [tensor("s", [1, 8]), tensor("e", [8])], outputs=["s2", "o"])
    scan = node("Scan", "x rows", "last all", body=body, num_scan_inputs=1)
    found = extracted(
        model([scan, node("Relu", "all", "y")], {"x": ["n", 8], "rows": [9, 8]}, [weight("w", [8, 8])]), batch_size=1
    )
    assert only(found, "onnx::MatMul").repeat == 9
    assert only(found, "onnx::Relu").output_elements == 9 * 8


def test_scan_over_a_scalar_is_refused() -> None:
    body = graph([node("Relu", "e", "o")], [tensor("e", [])])
    made = model([node("Scan", "x", "y", body=body, num_scan_inputs=1)], {"x": [], "rows": ["n"]})
    with pytest.raises(errors.InvalidInputError, match="which has no axis"):
        extracted(made)
