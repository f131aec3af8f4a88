"""The products and convolutions of a graph as shapes whose time `kernels` knows. Pure.

A convolution's backward operator counts as that many passes of the forward shape: gradients of the input and of the
weights are convolutions with as many operations, of the same algorithms. Grouped convolutions have no family.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api.graph import Graph, Operator, OperatorClass, Phase
from cotenant_predictor.kernels import model
from cotenant_predictor.kernels.convolutions import Convolutions
from cotenant_predictor.kernels.products import Products

Array: TypeAlias = npt.NDArray[Any]

ITEM_BYTES: Final = {"fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
"""Others take 4."""
_UNIT_STRIDE_BELOW: Final = 2.0
"""An input with less than so many pixels per output pixel is that of stride 1."""

_PRODUCT: Final = ("b", "m", "k", "n")
_CONVOLUTION: Final = ("b", "c", "k", "h", "r")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FamilyShapes:
    """Operators of one family; arrays have shape (n,)."""

    family: str
    index: Array
    """Positions in the graph's operators."""
    shapes: Products | Convolutions
    passes: Array
    """How often an occurrence runs the shape."""


def of(graph: Graph) -> tuple[FamilyShapes, ...]:
    """Return the graph's shapes by family; families without operators are left out."""
    members: dict[str, list[tuple[int, Operator]]] = {}
    for index, operator in enumerate(graph.operators):
        if (family := _family(operator)) is not None:
            members.setdefault(family, []).append((index, operator))
    return tuple(_shapes(family, found) for family, found in members.items())


def _family(operator: Operator) -> str | None:
    dims = operator.dims
    if operator.operator_class is OperatorClass.MATMUL and _has(dims, _PRODUCT):
        return model.LINEAR if dims["b"] == 1 else model.BMM
    if operator.operator_class is OperatorClass.CONV and _has(dims, _CONVOLUTION) and dims.get("groups", 1) == 1:
        return model.CONV
    return None


def _has(dims: dict[str, int], names: Sequence[str]) -> bool:
    return all(dims.get(name, 0) > 0 for name in names)


def _shapes(family: str, members: Sequence[tuple[int, Operator]]) -> FamilyShapes:
    operators = [operator for _, operator in members]
    build = _convolutions if family == model.CONV else _products
    shapes = build(operators)
    flops = np.array([operator.flops for operator in operators], dtype=np.float64)
    product = shapes.product if isinstance(shapes, Convolutions) else shapes
    return FamilyShapes(
        family=family,
        index=np.array([index for index, _ in members], dtype=np.intp),
        shapes=shapes,
        passes=np.maximum(1.0, np.rint(flops / product.flops)),
    )


def _products(operators: Sequence[Operator]) -> Products:
    columns = np.array([[operator.dims[name] for name in _PRODUCT] for operator in operators], dtype=np.float64).T
    return Products(
        batch=columns[0], rows=columns[1], reduction=columns[2], columns=columns[3], item_bytes=_item_bytes(operators)
    )


def _convolutions(operators: Sequence[Operator]) -> Convolutions:
    values = [_convolution(operator) for operator in operators]
    names = ("batch", "channels", "filters", "height", "width", "taps", "has_winograd")
    columns = dict(zip(names, np.array(values, dtype=np.float64).T, strict=True))
    columns["has_winograd"] = columns["has_winograd"] > 0
    return Convolutions(**columns, item_bytes=_item_bytes(operators))


def _convolution(operator: Operator) -> tuple[float, ...]:
    dims = operator.dims
    width = dims.get("w", 1) * dims.get("d", 1)
    edges = [dims[axis] for axis in "rst" if axis in dims]
    taps, pixels = math.prod(edges), dims["b"] * dims["h"] * width
    gradient = pixels * dims["k"] if operator.phase is Phase.BACKWARD else 0
    read = operator.bytes_read / ITEM_BYTES.get(operator.dtype, 4) - dims["c"] * dims["k"] * taps - gradient
    # Libraries leave Winograd to vector units: tensor cores are faster without the transforms, and more exact.
    has_winograd = operator.dtype == "fp32" and edges == [3, 3] and read < _UNIT_STRIDE_BELOW * pixels * dims["c"]
    return dims["b"], dims["c"], dims["k"], dims["h"], width, taps, has_winograd


def _item_bytes(operators: Sequence[Operator]) -> Array:
    return np.array([ITEM_BYTES.get(operator.dtype, 4) for operator in operators], dtype=np.float64)
