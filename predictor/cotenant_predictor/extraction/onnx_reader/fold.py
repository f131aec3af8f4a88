"""The elements of small tensors that only shapes and constants decide: what Reshape, Slice and the like are told.

Bounded: nothing larger than `MAX_FOLDED` elements is computed, and what is not listed here is not computed at all.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from cotenant_predictor.extraction.onnx_reader.values import Array, Occurrence

MAX_FOLDED = 4096
"""Elements. What says shapes is far smaller."""

MAX_READ = 16 * MAX_FOLDED
"""Elements of all inputs of one node, one that is given twice counted twice."""

Arrays = Sequence[Array | None]
_INT64_MIN = -(1 << 63)


def folded(node: Occurrence) -> list[Array] | None:
    """Return the outputs' elements; None where they are not known, or are not worth knowing.

    Raises:
        ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError: the inputs do not fit the operator.
    """
    if node.domain:
        return None
    if node.operator in ("Shape", "Size"):
        return _of_shape(node)
    rule = _RULES.get(node.operator)
    if rule is None or any(value is not None and value.array is None for value in node.inputs):
        return None
    if sum(value.array.size for value in node.read if value.array is not None) > MAX_READ:
        return None
    try:
        with np.errstate(all="ignore"):
            found = rule(node, [None if value is None else value.array for value in node.inputs])
    except _TooLargeError:
        return None
    results = found if isinstance(found, list) else [np.asarray(found)]
    return results if all(result.size <= MAX_FOLDED for result in results) else None


def _of_shape(node: Occurrence) -> list[Array] | None:
    value = node.input(0)
    if value is None or value.shape is None:
        return None
    if node.operator == "Size":
        return [np.asarray(value.elements, dtype=np.int64)]
    return [np.asarray(value.shape[node.whole("start", 0) : node.attributes.get("end")], dtype=np.int64)]


def _given(node: Occurrence, arrays: Arrays, name: str, index: int) -> list[int] | None:
    """Return a list of integers that older opsets have as an attribute and newer ones as an input."""
    if name in node.attributes:
        return [int(item) for item in node.attributes[name]]
    value = arrays[index] if index < len(arrays) else None
    return None if value is None else [int(item) for item in value.reshape(-1)]


def _present(arrays: Arrays) -> list[Array]:
    return [array for array in arrays if array is not None]


def _element_wise(function: Callable[..., Any]) -> Callable[[Occurrence, Arrays], Any]:
    def run(_node: Occurrence, arrays: Arrays) -> Any:
        present = _present(arrays)
        _bounded(np.broadcast_shapes(*(array.shape for array in present)))
        return function(*present)

    return run


def _reduction(function: Callable[..., Any]) -> Callable[[Occurrence, Arrays], Any]:
    def run(node: Occurrence, arrays: Arrays) -> Any:
        data = _present(arrays)[0]
        axes = _given(node, arrays, "axes", 1)
        keep = bool(node.whole("keepdims", 1))
        if not axes and node.whole("noop_with_empty_axes", 0):
            return data
        found = function(data, axis=tuple(axes) if axes else None, keepdims=keep)
        return np.asarray(found, dtype=data.dtype)

    return run


def _bounded(shape: Sequence[int]) -> Sequence[int]:
    size = 1
    for each in shape:
        size *= int(each)
        if each < 0 or size > MAX_FOLDED:
            raise _TooLargeError
    return shape


class _TooLargeError(Exception):
    """Not worth computing."""


def _quotient(first: Array, second: Array) -> Any:
    if first.dtype.kind == "f":
        return first / second
    if not np.all(second):
        raise ZeroDivisionError("division by zero")
    return (np.sign(first) * np.sign(second) * (np.abs(first) // np.abs(second))).astype(first.dtype)


def _power(first: Array, second: Array) -> Any:
    if first.dtype.kind == "f":
        return np.power(first, second).astype(first.dtype)
    return np.power(first.astype(np.float64), second.astype(np.float64)).astype(first.dtype)


def _remainder(first: Array, second: Array) -> Any:
    if first.dtype.kind != "f" and not np.all(second):
        raise ZeroDivisionError("division by zero")
    return np.mod(first, second)


def _slice(node: Occurrence, arrays: Arrays) -> Any:
    data = _present(arrays)[0]
    starts, ends = _given(node, arrays, "starts", 1) or [], _given(node, arrays, "ends", 2) or []
    axes = _given(node, arrays, "axes", 3) or list(range(len(starts)))
    steps = _given(node, arrays, "steps", 4) or [1] * len(starts)
    cut = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        stop = None if step < 0 and end <= _INT64_MIN + data.shape[axis] else end
        cut[axis] = slice(start, stop, step)
    return data[tuple(cut)]


def _squeeze(node: Occurrence, arrays: Arrays) -> Any:
    axes = _given(node, arrays, "axes", 1)
    return np.squeeze(_present(arrays)[0], axis=tuple(axes) if axes else None)


def _unsqueeze(node: Occurrence, arrays: Arrays) -> Any:
    return np.expand_dims(_present(arrays)[0], tuple(_given(node, arrays, "axes", 1) or ()))


def _reshape(node: Occurrence, arrays: Arrays) -> Any:
    data = _present(arrays)[0]
    target = _given(node, arrays, "shape", 1) or []
    if not node.whole("allowzero", 0):
        target = [data.shape[axis] if size == 0 else size for axis, size in enumerate(target)]
    return data.reshape(target)


def _expand(node: Occurrence, arrays: Arrays) -> Any:
    data = _present(arrays)[0]
    shape = np.broadcast_shapes(data.shape, tuple(_given(node, arrays, "shape", 1) or ()))
    return np.broadcast_to(data, tuple(_bounded(shape)))


def _constant_of_shape(node: Occurrence, arrays: Arrays) -> Any:
    shape = tuple(int(size) for size in _present(arrays)[0].reshape(-1))
    value = node.attributes.get("value")
    fill = np.zeros(1, dtype=np.float32) if value is None else np.asarray(value).reshape(-1)
    return np.full(_bounded(shape), fill[0], dtype=fill.dtype)


def _range(_node: Occurrence, arrays: Arrays) -> Any:
    start, limit, delta = (array.reshape(-1)[0] for array in _present(arrays))
    if not delta:
        raise ZeroDivisionError("a range whose step is 0")
    count = max(0, int(np.ceil((float(limit) - float(start)) / float(delta))))
    _bounded((count,))
    return (start + np.arange(count) * delta).astype(start.dtype)


def _cast(node: Occurrence, arrays: Arrays) -> Any:
    types = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16}
    types[11] = np.float64
    wanted = types.get(node.whole("to", 0))
    if wanted is None:
        raise _TooLargeError
    return _present(arrays)[0].astype(wanted)


def _split(node: Occurrence, arrays: Arrays) -> Any:
    data, count = _present(arrays)[0], max(1, len(node.outputs))
    axis = node.whole("axis", 0)
    sizes = _given(node, arrays, "split", 1)
    if sizes is None:
        each = -(-data.shape[axis] // count)
        sizes = [each] * (count - 1)
    return np.split(data, np.cumsum(sizes)[: count - 1], axis=axis)


def _take(node: Occurrence, arrays: Arrays) -> Any:
    data, indices = _present(arrays)
    axis = node.whole("axis", 0)
    _bounded((*data.shape, *indices.shape))
    return np.take(data, indices, axis=axis)


def _join(node: Occurrence, arrays: Arrays) -> Any:
    return np.concatenate(_present(arrays), axis=node.whole("axis", 0))


def _same(_node: Occurrence, arrays: Arrays) -> Any:
    return _present(arrays)[0]


def _transpose(node: Occurrence, arrays: Arrays) -> Any:
    return np.transpose(_present(arrays)[0], node.attributes.get("perm"))


def _positions(_node: Occurrence, arrays: Arrays) -> Any:
    return np.asarray(np.nonzero(_present(arrays)[0]), dtype=np.int64)


_RULES: Mapping[str, Callable[[Occurrence, Arrays], Any]] = MappingProxyType(
    {
        "Add": _element_wise(np.add),
        "Sub": _element_wise(np.subtract),
        "Mul": _element_wise(np.multiply),
        "Div": _element_wise(_quotient),
        "Mod": _element_wise(_remainder),
        "Pow": _element_wise(_power),
        "Min": _element_wise(lambda *arrays: np.min(np.broadcast_arrays(*arrays), axis=0)),
        "Max": _element_wise(lambda *arrays: np.max(np.broadcast_arrays(*arrays), axis=0)),
        "Equal": _element_wise(np.equal),
        "Greater": _element_wise(np.greater),
        "GreaterOrEqual": _element_wise(np.greater_equal),
        "Less": _element_wise(np.less),
        "LessOrEqual": _element_wise(np.less_equal),
        "And": _element_wise(np.logical_and),
        "Or": _element_wise(np.logical_or),
        "Not": _element_wise(np.logical_not),
        "Where": _element_wise(np.where),
        "Neg": _element_wise(np.negative),
        "Abs": _element_wise(np.abs),
        "Floor": _element_wise(np.floor),
        "Ceil": _element_wise(np.ceil),
        "Sqrt": _element_wise(np.sqrt),
        "ReduceProd": _reduction(np.prod),
        "ReduceSum": _reduction(np.sum),
        "ReduceMax": _reduction(np.max),
        "ReduceMin": _reduction(np.min),
        "Slice": _slice,
        "Squeeze": _squeeze,
        "Unsqueeze": _unsqueeze,
        "Reshape": _reshape,
        "Expand": _expand,
        "ConstantOfShape": _constant_of_shape,
        "Range": _range,
        "Cast": _cast,
        "Split": _split,
        "Gather": _take,
        "Concat": _join,
        "Identity": _same,
        "Transpose": _transpose,
        "NonZero": _positions,
    }
)
