"""Types and shapes of one node's outputs, by onnx's own inference: the one place that calls its native code."""

from collections.abc import Mapping, Sequence

import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference

from cotenant_predictor.extraction.onnx_reader import contrib, fold
from cotenant_predictor.extraction.onnx_reader.values import Occurrence

MAX_OPSET = 2**31 - 1


class MisfitError(ValueError):
    """The node does not fit its inputs, or there is no such operator."""


def inferred(
    node: Occurrence, attributes: Sequence[onnx.AttributeProto], *, outputs: int, opsets: Mapping[str, int]
) -> list[onnx.TypeProto | None]:
    """One type per output; empty for an operator that onnx does not know, or whose inputs have no shape.

    Raises:
        MisfitError: the node is wrong.
    """
    schema = _schema(node)
    if schema is None or any(value.shape is None for value in node.read):
        return []
    plain = onnx.NodeProto(op_type=schema.name, domain=schema.domain)
    plain.input.extend("" if value is None else f"i{index}" for index, value in enumerate(node.inputs))
    plain.output.extend(f"o{index}" for index in range(outputs))
    plain.attribute.extend(one for one in attributes if not node.domain or one.name in schema.attributes)
    given = {f"i{index}": value for index, value in enumerate(node.inputs) if value is not None}
    known = sum(value.array.size for value in node.read if value.array is not None)
    arrays = {name: value.tensor_proto() for name, value in given.items() if known <= fold.MAX_READ}
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            plain,
            {name: value.type_proto() for name, value in given.items()},
            {name: tensor for name, tensor in arrays.items() if tensor is not None},
            opset_imports=[onnx.helper.make_opsetid(*entry) for entry in opsets.items()],
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise MisfitError(str(error)) from error
    except (RuntimeError, ValueError, TypeError, MemoryError) as error:  # whatever else its native code reports
        raise MisfitError(str(error)) from error
    return [found.get(name) for name in plain.output]


def _schema(node: Occurrence) -> onnx.defs.OpSchema | None:
    standard = contrib.STANDARD.get(node.operator) if node.domain == "com.microsoft" else None
    if standard is not None:
        return onnx.defs.get_schema(standard, onnx.defs.onnx_opset_version(), "")
    try:
        return onnx.defs.get_schema(node.operator, max(1, min(node.opset, MAX_OPSET)), node.domain)
    except onnx.defs.SchemaError as error:
        if not node.domain:
            raise MisfitError(f"is no operator of opset {node.opset}") from error
        return None
