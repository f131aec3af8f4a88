"""Sees every ATen operator of a step and folds equal ones. What CUDA would run otherwise is `cuda`'s business."""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from . import operators

Row = dict[str, Any]

_FIELDS = ("class", "name", "phase", "kernels", "flops", "bytesRead", "bytesWritten", "outputElements", "dtype")
_DEFAULTS: Row = {"kernels": 1, "flops": 0, "bytesRead": 0, "bytesWritten": 0, "outputElements": 0}
_TYPES = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float64: "fp64",
    torch.bool: "bool",
}


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch is not there where types are checked
    """A dispatch mode that counts operators, the longest chain of them, and what autograd saves.

    Args:
        tf32: whether matrix products of fp32 tensors run as TF32. Convolutions and recurrent layers do so by
            PyTorch's default (`torch.backends.cudnn.allow_tf32`).
    """

    def __init__(self, *, tf32: bool) -> None:
        super().__init__()
        self.last = "nothing"
        """The operator that ran last: where a failing step stopped."""
        self.optimizer: str | None = None
        self.longest = 0
        self.saved_peak_bytes = 0
        self._tf32_classes = {"conv", "rnn", "matmul", "attention"} if tf32 else set()
        if torch.backends.cudnn.allow_tf32:
            self._tf32_classes |= {"conv", "rnn"}
        self._rows: dict[tuple[Any, ...], int] = {}
        self._unknown: collections.Counter[str] = collections.Counter()
        self._unknown_elements = 0
        self._depths: dict[int, tuple[Any, int]] = {}
        self._saved: dict[int, tuple[Any, int]] = {}
        self._not_saved: set[int] = set()
        self._paused = self._after_backward = False

    @property
    def has_begun(self) -> bool:
        """Whether any operator of the step was seen."""
        return bool(self._rows)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator on meta, then record it; what touches only CPU tensors is the host's business."""
        self.last = func._schema.name
        result = func(*args, **(kwargs or {}))
        inputs, outputs = list(tensors_in([args, kwargs or {}])), list(tensors_in([result]))
        if not self._paused and any(tensor.is_meta for tensor in [*inputs, *outputs]):
            self._record(func, args, inputs, outputs)
        return result

    def unrecorded(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call `function` without counting its operators."""
        before, self._paused = self._paused, True
        try:
            return function(*args, **kwargs)
        finally:
            self._paused = before

    def add(self, row: Row, inputs: Iterable[Tensor], outputs: Sequence[Tensor]) -> None:
        """Count one operator: `class`, `name` and `dtype` are given, `phase` and the rest may be."""
        full = {**_DEFAULTS, "phase": _phase(), **row}
        if full["dtype"] == "fp32" and full["class"] in self._tf32_classes:
            full["dtype"] = "tf32"
        key = (*((field, full[field]) for field in _FIELDS), ("dims", tuple(full.get("dims", {}).items())))
        self._rows[key] = self._rows.get(key, 0) + 1
        self._after_backward = self._after_backward or full["phase"] == "Backward"
        if full["kernels"]:
            self._chain(full, inputs, outputs)

    def do_not_count_as_saved(self, tensors: Iterable[Tensor]) -> None:
        """Parameters, buffers and inputs: their memory is counted elsewhere."""
        self._not_saved.update(map(_key, tensors))

    def save(self, tensor: Tensor) -> Tensor:
        """Autograd keeps `tensor` for the backward pass: count its storage once, while it is alive."""
        if self._after_backward and _phase() == "Forward":  # a further forward pass of the same step
            self._saved = {key: entry for key, entry in self._saved.items() if not entry[0].expired()}
            self._after_backward = False
        key = _key(tensor)
        if key not in self._not_saved and key not in self._saved:
            self._saved[key] = (_weak(tensor), tensor.untyped_storage().nbytes())
            self.saved_peak_bytes = max(self.saved_peak_bytes, sum(entry[1] for entry in self._saved.values()))
        return tensor

    def rows(self) -> list[Row]:
        """The folded operators, in order of first occurrence."""
        return [{**dict(key), "dims": dict(key[-1][1]), "repeat": repeat} for key, repeat in self._rows.items()]

    def coverage(self) -> Row:
        """Operators counted, and those of no known class: an unknown one is taken for one FLOP per output element."""
        known = sum(row["flops"] * row["repeat"] for row in self.rows())
        share = known / (known + self._unknown_elements) if self._unknown_elements else 1.0
        unknown = dict(sorted(self._unknown.items()))
        return {"operators": sum(self._rows.values()), "unknown": unknown, "flopsPercent": round(100 * share, 2)}

    def _record(self, func: Any, args: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        name = func._schema.name
        base = name.split("::")[-1]
        row: Row = {"name": name, "dtype": type_of(outputs or inputs), "class": "copy", "kernels": 0}
        if not outputs or operators.launches_nothing(base) or _is_view(func):
            self.add(row, inputs, ())
            return
        cls = _class_of(func, base)
        if cls is None:
            self._unknown[name] += 1
            self._unknown_elements += sum(tensor.numel() for tensor in outputs)
        self.add({**row, "class": cls or "other", **_amounts(base, cls, args, (inputs, outputs))}, inputs, outputs)

    def _chain(self, row: Row, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> None:
        """The longest chain so far ends at `outputs`; the steps of a recurrent layer follow one another."""
        serial = row["kernels"] if row["class"] == "rnn" else 1
        depth = serial + max((self._depths.get(_key(tensor), (None, 0))[1] for tensor in inputs), default=0)
        self.longest = max(self.longest, depth)
        for tensor in outputs:
            self._depths[_key(tensor)] = (_weak(tensor), depth)


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and dicts."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Bytes of the elements that are there: an expanded dimension counts once."""
    return sum(_elements(tensor) * tensor.element_size() for tensor in tensors)


def type_of(tensors: Sequence[Tensor]) -> str:
    """The graph document's name of the first tensor's type."""
    dtype = tensors[0].dtype if tensors else torch.float32
    return _TYPES.get(dtype, str(dtype).replace("torch.", "").replace("float8", "fp8"))


def _elements(tensor: Tensor) -> int:
    if not tensor.numel():
        return 0
    return math.prod(size for axis, size in enumerate(tensor.shape) if tensor.stride(axis) != 0)


def _phase() -> str:
    return "Forward" if torch._C._current_graph_task_id() == -1 else "Backward"


def _amounts(base: str, cls: str | None, args: Any, tensors: tuple[list[Tensor], list[Tensor]]) -> Row:
    """FLOPs, bytes, kernels and dimensions of one occurrence."""
    inputs, outputs = tensors
    written = bytes_of(outputs)
    read = bytes_of(inputs[1:] if operators.ignores_first_input(base) else inputs)
    if operators.reads_only_what_it_writes(base):
        read = min(read, written + bytes_of(inputs[1:]))
    if operators.reads_twice(base) and not any(argument is False for argument in args):  # False: not training
        read *= 2
    elements = sum(tensor.numel() for tensor in outputs)
    row: Row = {"bytesRead": read, "bytesWritten": written, "outputElements": elements}
    row["kernels"] = operators.kernels_of(base)
    if cls == "conv":
        return {**row, **_convolution(base, args, outputs)}
    if cls == "matmul":
        flops, dims = operators.matmul([tensor.shape for tensor in inputs if tensor.dim()])
        return {**row, "flops": flops, "dims": dims}
    largest = max((tensor.numel() for tensor in inputs), default=0)
    row["flops"] = operators.simple_flops(cls, read=largest, written=max(tensor.numel() for tensor in outputs))
    return row


def _convolution(base: str, args: Any, outputs: list[Tensor]) -> Row:
    """The backward pass is one product for each of data and weight whose gradient is asked for."""
    if base != "convolution_backward":
        data, weight, bias, transposed, groups = args[0], args[1], args[2], args[6], args[8]
        result, passes, kernels = outputs[0], 1, 1 if bias is None else 2
    else:
        result, data, weight = args[:3]
        transposed, groups, mask = args[7], args[9], args[10]
        passes, kernels = int(mask[0]) + int(mask[1]), sum(map(int, mask))
    flops, dims = operators.convolution(
        data.shape, weight.shape, result.shape, transposed=bool(transposed), groups=groups
    )
    return {"flops": passes * flops, "dims": dims, "kernels": kernels}


@functools.cache
def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return all(value.alias_info is not None and not value.alias_info.is_write for value in returns)


@functools.cache
def _class_of(func: Any, base: str) -> str | None:
    known = operators.class_of(base)
    if known is not None:
        return known
    functional = getattr(torch.ops.aten, base.rstrip("_"), None)  # in-place variants do not all carry the tag
    overloads = [func] + [getattr(functional, name) for name in (functional.overloads() if functional else ())]
    return "elementwise" if any(torch.Tag.pointwise in overload.tags for overload in overloads) else None


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _weak(tensor: Tensor) -> Any:
    """Holding it keeps the storage's key from being given to another storage."""
    return StorageWeakRef(tensor.untyped_storage())
