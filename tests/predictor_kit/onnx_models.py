"""Builds ONNX files for tests: nodes, inputs, and weights whose elements lie in a file that is not there."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cotenant_api.graph import Graph, Operator
from cotenant_predictor.extraction.onnx_reader import document

Dims = Sequence[int | str | None] | None
TYPES = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
TYPES |= {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int32": TensorProto.INT32}


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node; names are separated by blanks, `-` leaves one out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    settings = {"name": f"{operator}_{outputs.partition(' ')[0]}", **attributes}
    return helper.make_node(operator, names, outputs.split(), **settings)


def tensor(name: str, dims: Dims, dtype: str = "fp32") -> onnx.ValueInfoProto:
    """An input or output; a dimension is a size, a name, or open."""
    return helper.make_tensor_value_info(name, TYPES[dtype], dims)


def weight(name: str, shape: Sequence[int], dtype: str = "fp32") -> onnx.TensorProto:
    """An initializer with its elements in another file."""
    made = TensorProto(name=name, data_type=TYPES[dtype], dims=shape)
    made.data_location = TensorProto.EXTERNAL
    made.external_data.add(key="location", value="not-there.bin")
    return made


def constant(name: str, value: Any) -> onnx.TensorProto:
    """An initializer with its elements; integers are int64, fractions fp32."""
    array = np.asarray(value)
    return numpy_helper.from_array(array.astype(np.float32) if array.dtype.kind == "f" else array, name)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Dims] | Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    outputs: Sequence[str] = (),
) -> onnx.GraphProto:
    """A graph; its outputs are those of its last node."""
    entries = [tensor(name, dims) for name, dims in inputs.items()] if isinstance(inputs, Mapping) else inputs
    names = outputs or [name for name in nodes[-1].output if name][:1]
    results = [helper.make_empty_tensor_value_info(name) for name in names]
    return helper.make_graph(list(nodes), "graph", list(entries), results, initializer=list(weights))


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Dims] | Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 17,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model of one graph."""
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("own", 1)]
    return helper.make_model(graph(nodes, inputs, weights), opset_imports=opsets, functions=list(functions))


def extracted(made: onnx.ModelProto | bytes, **options: Any) -> Graph:
    """The graph document of a model; the batch is 1 unless stated."""
    data = made if isinstance(made, bytes) else made.SerializeToString()
    settings = document.Options(**{"name": "example", "batch_size": 1, **options})
    return Graph.from_object(document.extract(data, settings, source="m.onnx"), source="example").sealed()


def only(found: Graph, name: str) -> Operator:
    """The one operator of this name."""
    (operator,) = [op for op in found.operators if op.name == name]
    return operator
