"""A training step from a forward graph: what the backward pass runs, what it needs kept, and the optimizer's sweep.

Derived, not read: each operator that a weight's gradient passes through has its backward counterpart. A product or
convolution has one product for each side that needs a gradient, attention computes its scores again (5 products
for 2), a recurrent layer works twice, everything else reads what it kept and the gradient and writes one gradient per
input. A tensor that several operators read has its gradients added up. The loss itself is not in the file: not counted.
"""

import collections
import dataclasses
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from cotenant_api import errors
from cotenant_predictor.extraction.onnx_reader import operators, products
from cotenant_predictor.extraction.onnx_reader.values import Occurrence, Origin, Value

Row = dict[str, Any]

_STATES = MappingProxyType(
    {"sgd": 0, "adam": 2, "adamw": 2, "adamax": 2, "nadam": 2, "radam": 2, "rmsprop": 1, "adagrad": 1, "adadelta": 2}
)
"""Tensors that an optimizer keeps per weight; momentum adds one to sgd and rmsprop, amsgrad one to adam."""
_TENSORS_PER_KERNEL = 36
_ELEMENTS_PER_KERNEL = 320 * 65536

# Which tensors an operator keeps: its inputs, its outputs, both, or none; of others, its inputs.
_KEEPS_NOTHING = operators.named(
    "Add Sub Neg Sum Mean Identity Concat Split Slice Transpose Expand Tile Pad Cast CastLike DepthToSpace "
    "SpaceToDepth Reshape Flatten Squeeze Unsqueeze ReduceMean ReduceSum GlobalAveragePool AveragePool BiasAdd Resize "
    "Upsample Trilu QuantizeLinear DequantizeLinear"
)
_KEEPS_OUTPUTS = operators.named("Relu Sigmoid Tanh Softmax LogSoftmax Exp Sqrt Reciprocal HardSigmoid Elu Selu Celu")
_KEEPS_BOTH = operators.named("LSTM GRU RNN Attention MultiHeadAttention MaxPool")
_KEEPS_INDICES = operators.named("Gather GatherElements GatherND Where")
_KEEPS_OTHER_SIDE = operators.named("MatMul Gemm Conv ConvTranspose Mul Div Einsum")
_NO_GRADIENT = operators.named(
    "Shape Size ArgMax ArgMin NonZero OneHot Equal Greater GreaterOrEqual Less LessOrEqual And Or Not Xor IsNaN IsInf "
    "Floor Ceil Round Sign ConstantOfShape Range EyeLike RandomNormalLike RandomUniformLike Multinomial Bernoulli "
    "NonMaxSuppression Unique"
)
_PASSES_ON = operators.named("Add Sum Sub Identity Concat Split Slice BiasAdd")
"""Whose gradient is the output's, or a part of it: at most broadcast sums are computed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """What a training step adds to the forward pass."""

    rows: list[Row]
    saved_bytes: int


def backward(nodes: Sequence[Occurrence]) -> Step:
    """Return the backward pass of forward nodes in order, and what they keep for it."""
    learned = {value.key for node in nodes for value in operators.weights(node) if value.floats}
    needing = set(learned)
    reached = []
    for node in nodes:
        if node.operator in _NO_GRADIENT or not any(value.key in needing for value in node.read):
            continue
        outputs = {value.key for value in node.written if value.floats}
        needing |= outputs
        if outputs:
            reached.append(node)
    rows: list[Row] = []
    for node in reversed([node for node in reached if not node.folded]):
        rows += _rows(node, needing)
    rows += _sums(reached, needing)
    return Step(rows=rows, saved_bytes=_saved(reached, needing))


def sweep(parameters: Sequence[Value], optimizer: str) -> Row:
    """One pass over parameters, gradients and state, as a fused or multi-tensor optimizer makes it.

    Raises:
        InvalidInputError: what the optimizer keeps is not known.
    """
    name, _, text = optimizer.lower().partition(":")
    if name not in _STATES:
        known = ", ".join(_STATES)
        raise errors.InvalidInputError("--optimizer", optimizer, f"of an ONNX file's training must be one of {known}")
    options = dict(pair.partition("=")[::2] for pair in text.split(",") if pair)
    momentum = name in ("sgd", "rmsprop") and options.get("momentum", "0").strip("0.") != ""
    states = _STATES[name] + momentum + (options.get("amsgrad", "") in ("true", "1"))
    elements, weights = sum(value.elements for value in parameters), sum(value.bytes for value in parameters)
    state = states * weights
    kernels = max(-(-len(parameters) // _TENSORS_PER_KERNEL), -(-elements // _ELEMENTS_PER_KERNEL))
    return {
        "class": "elementwise",
        "name": f"optimizer::{name}",
        "phase": "Optimizer",
        "dtype": parameters[0].dtype if parameters else "fp32",
        "kernels": kernels,
        "flops": 4 * elements,
        "bytesRead": 2 * weights + state,
        "bytesWritten": weights + state,
        "outputElements": elements,
        "dims": {"tensors": len(parameters), "stateBytes": state, "gradientBytes": weights},
    }


def _rows(node: Occurrence, needing: set[int]) -> list[Row]:
    """Return the backward counterpart of one node."""
    if operators.launches_nothing(node, training=True):
        return []
    cls = operators.class_of(node)
    wanted = [value for value in node.read if value.key in needing and value.floats]
    written = sum(value.bytes for value in wanted)
    gradient = sum(value.bytes for value in node.written if value.floats)
    row: Row = {"name": node.name[:256], "phase": "Backward", "repeat": node.repeat}
    row.update({"dtype": operators.dtype_of(node), "bytesWritten": written, "kernels": 1})
    row.update(
        {"outputElements": sum(value.elements for value in wanted), "bytesRead": gradient + _kept(node, needing)}
    )
    if cls is not None and cls in operators.MATRIX:
        found = products.of(node, cls)
        if found:
            return [made for product in found for made in _products(row, node, product, needing)]
    if node.operator in _PASSES_ON:
        return _passed_on(row, node, wanted)
    largest = max((value.elements for value in [*node.read, *node.written]), default=0)
    row.update({"class": cls or "other", "flops": 2 * largest if cls not in ("copy", "embedding", "sparse") else 0})
    if cls == "embedding":
        row["kernels"] = 4
    if cls == "norm":
        passes = 2 if node.operator in ("BatchNormalization", "GroupNormalization", "InstanceNormalization") else 1
        row.update({"flops": 6 * largest, "kernels": 3 - passes, "bytesRead": passes * row["bytesRead"]})
    if cls == "elementwise":
        row.update({"kernels": max(1, len(wanted)), "flops": largest * max(1, len(wanted))})
    return [row]


def _products(row: Row, node: Occurrence, product: products.Product, needing: set[int]) -> list[Row]:
    if product.cls == "attention":
        return [{**row, "class": "attention", "kernels": 3, "flops": 5 * product.flops // 2, "dims": product.dims}]
    if product.cls == "rnn":
        values = {"flops": 2 * product.flops, "kernels": product.kernels + 2, "dims": product.dims}
        return [{**row, "class": "rnn", **values}]
    sides = [value for value in _sides(node) if value.key in needing]
    bias = any(value.key in needing for value in node.read if value.key not in {side.key for side in _sides(node)})
    if product.cls == "conv":
        values = {"flops": len(sides) * product.flops, "kernels": len(sides) + bias, "dims": product.dims}
        return [{**row, "class": "conv", **values}] if sides else []
    return [_transposed(row, node, product, value) for value in sides] + (_bias(row, node) if bias else [])


def _sides(node: Occurrence) -> list[Value]:
    """Return the two tensors that are multiplied."""
    return [value for value in node.inputs[:2] if value is not None]


def _transposed(row: Row, node: Occurrence, product: products.Product, side: Value) -> Row:
    """Return the product that makes one side's gradient: of the output's and the other side."""
    b, m, n, k = (product.dims[key] for key in "bmnk")
    first = node.inputs[0] is not None and side.key == node.inputs[0].key
    dims = {"b": b, "m": m, "n": k, "k": n} if first else {"b": b, "m": n, "n": k, "k": m}
    other = sum(value.bytes for value in _sides(node) if value.key != side.key)
    amounts = {"bytesRead": other + sum(value.bytes for value in node.written), "bytesWritten": side.bytes}
    return {**row, "class": "matmul", "flops": product.flops, "dims": dims, "outputElements": side.elements, **amounts}


def _bias(row: Row, node: Occurrence) -> list[Row]:
    gradient = node.written[0]
    size = node.inputs[2].bytes if len(node.inputs) > 2 and node.inputs[2] is not None else 0
    values = {"flops": 2 * gradient.elements, "bytesRead": gradient.bytes, "bytesWritten": size}
    return [{**row, "class": "reduction", "outputElements": gradient.dims[-1] if gradient.dims else 1, **values}]


def _passed_on(row: Row, node: Occurrence, wanted: Sequence[Value]) -> list[Row]:
    """Return sums where an input was broadcast; a copy where it was a part."""
    if node.operator in ("Split", "Slice"):
        return [{**row, "class": "copy"}]
    out = node.written[0]
    if node.operator == "Concat":
        return []
    broadcast = [value for value in wanted if value.elements < out.elements]
    values = {"class": "reduction", "flops": 2 * out.elements, "bytesRead": out.bytes}
    return [{**row, **values, "bytesWritten": v.bytes, "outputElements": v.elements} for v in broadcast]


def _sums(nodes: Sequence[Occurrence], needing: set[int]) -> list[Row]:
    """Where several operators read a tensor, its gradients are added up."""
    readers: collections.Counter[int] = collections.Counter()
    values = {}
    for node in nodes:
        for value in node.read:
            if value.key in needing and value.floats and value.origin is not Origin.INPUT:
                readers[value.key] += 1
                values[value.key] = (value, node.repeat)
    rows = []
    for key, count in readers.items():
        value, repeat = values[key]
        if count > 1 and not value.static:
            row: Row = {"class": "elementwise", "name": "onnx::Add", "phase": "Backward", "dtype": value.dtype}
            row.update({"repeat": repeat * (count - 1), "flops": value.elements, "outputElements": value.elements})
            rows.append({**row, "bytesRead": 2 * value.bytes, "bytesWritten": value.bytes})
    return rows


def _kept_values(node: Occurrence, needing: set[int]) -> list[Value]:
    first, second = ([*node.read, None, None])[:2]
    if node.operator in _KEEPS_NOTHING or operators.launches_nothing(node, training=True):
        kept: list[Value] = []
    elif node.operator in _KEEPS_OUTPUTS:
        kept = list(node.written)
    elif node.operator in _KEEPS_BOTH:
        kept = [*node.read, *node.written]
    elif node.operator == "Dropout":
        kept = list(node.written[1:]) or [node.written[0].cast("bool")]
    elif node.operator in _KEEPS_INDICES:
        kept = [value for value in node.read if not value.floats]
    elif node.operator in _KEEPS_OTHER_SIDE and first is not None and second is not None:
        kept = [one for one, other in ((first, second), (second, first)) if other.key in needing]
    else:
        kept = list(node.read)
    return kept


def _kept(node: Occurrence, needing: set[int]) -> int:
    return sum(value.bytes for value in _kept_values(node, needing))


def _saved(nodes: Sequence[Occurrence], needing: set[int]) -> int:
    """Bytes of the distinct tensors kept; weights, constants and inputs have their memory elsewhere, views none."""
    saved: dict[int, int] = {}
    viewed: dict[int, Value] = {}
    for node in nodes:
        if node.read and operators.launches_nothing(node, training=True):
            source = viewed.get(node.read[0].key, node.read[0])
            viewed.update({value.key: source for value in node.written})
        for kept in () if node.folded else _kept_values(node, needing):
            value = viewed.get(kept.key, kept)
            if not value.static and value.origin is not Origin.INPUT:
                saved[value.key] = value.bytes * node.repeat
    return sum(saved.values())
