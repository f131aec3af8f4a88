"""The extractor: runs one step of a model on PyTorch's meta device and lists its operators.

One file on purpose, and longer than the house's limit for that reason: it is copied into a user's image that has only
torch (Python >= 3.9, torch >= 2.1, the standard library; nothing of Cotenant) and run there,

    python extractor.py MODULE:CALLABLE --batch-size 64 --compile > graph.json

or imported by `cotenant extract`. It allocates no weights, touches no GPU and writes no file; `extract` returns a plain
dict in the shape of a graph document. In order: what is known of operators, the recorder, the fusion that stands for
torch.compile, what CUDA runs otherwise than meta tensors, optimizers, the step, the command line.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import dataclasses
import functools
import importlib
import json
import math
import re
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

Row = dict[str, Any]

_LOWER = {"bf16": torch.bfloat16, "fp16": torch.float16}
_CONTRACT = "return (model, inputs), (model, inputs, loss) or {'modules': [..], 'inputs': .., 'step': function}"
_HOOKS = (
    "_current_graph_task_id",
    "_dispatch_tls_set_dispatch_key_included",
    "_dispatch_tls_set_dispatch_key_excluded",
    "_ExcludeDispatchKeyGuard",
    "DispatchKeySet",
    "DispatchKey",
)
"""What this file needs of `torch._C`, for which torch has no public name; there from 2.1 to 2.15 at least."""


class ExtractionError(Exception):
    """The step cannot be run without data, or there is none; says where in the user's code, and what to do."""

    def __init__(self, operator: str, place: str, *, reason: str, remedy: str) -> None:
        self.operator, self.place, self.advice = operator, place, f"{reason}: {remedy}"
        super().__init__(f"{operator} at {place}: {self.advice}")


# ---- What is known of operators, from their names and shapes -------------------------------------------------------

_CLASSES = (
    ("conv", r"(_?convolution|conv_tbc)(_backward)?"),
    ("matmul", r"mm|addmm|bmm|baddbmm|addbmm|mv|addmv|dot|vdot|_int_mm|_(scaled|grouped|scaled_grouped)_mm"),
    ("norm", r"\w*(batch|layer|group|rms|weight)_norm\w*"),
    ("embedding", r"_?embedding\w*"),
    ("pool", r"\w*(max|avg)_pool\w*|_?upsample_\w+|grid_sampler\w*"),
    ("reduction", r"_(log_|safe_)?softmax\w*|nll_loss\w*|_?ctc_loss\w*|_cdist\w*|mse_loss|binary_cross_entropy"),
    ("reduction", r"sum|mean|var|var_mean|std|std_mean|a?max|a?min|aminmax|argmax|argmin|prod|norm|linalg_vector_norm"),
    ("reduction", r"logsumexp|cumsum|cumprod|any|all|topk|sort|bincount|equal|_unique2?|unique_\w+|histc|cummax"),
    ("elementwise", r"native_dropout\w*|bernoulli|normal|uniform|exponential|random|rand\w*|multinomial|tri[lu]"),
    ("elementwise", r"\w+_loss(_backward)?|\w+_with_logits|binary_cross_entropy_backward|_?prelu\w*|glu\w*|where"),
    ("elementwise", r"masked_fill|nan_to_num|rrelu_with_noise\w*|_foreach_\w+|hard(tanh|swish|sigmoid)(_backward)?"),
    (
        "elementwise",
        r"floor_divide|fmod|remainder|(leaky_relu|elu|gelu|silu|mish|softplus|softshrink|hardshrink)_backward",
    ),
    ("copy", r"clone|copy|_to_copy|cat|stack|fill|zero|zeros\w*|ones\w*|full\w*|new_(zeros|ones|full)|scalar_tensor"),
    ("copy", r"arange|linspace|eye|tri[lu]_indices|repeat|roll|flip|\w+_pad(\d?d|_nd)\w*|complex|view_as_\w+_copy"),
    ("copy", r"(slice|select|unfold|diagonal)_(backward|scatter)|im2col|col2im|pixel_(un)?shuffle|channel_shuffle"),
    ("copy", r"split_with_sizes_copy|unfold_copy"),
    ("sparse", r"index|_?index_(put|put_impl|add|select|copy|fill|reduce)(_impl)?|gather\w*|scatter\w*|take|one_hot"),
    ("sparse", r"_?sparse_(mm|addmm|coo\w*|csr\w*|softmax\w*|sum\w*|mask\w*|sampled_addmm)|_spmm\w*|_coalesce|put"),
    ("sparse", r"_?to_(dense|sparse\w*)|nonzero|masked_select|masked_scatter\w*|repeat_interleave|segment_reduce\w*"),
    ("sparse", r"_coalesced|_convert_indices_\w+|_sparse_mm_reduce_impl\w*|_segment_reduce_backward"),
)
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _CLASSES)

_WITHOUT_KERNEL = re.compile(
    r"(new_)?empty(_like|_strided|_permuted)?|_unsafe_view|lift_fresh|resize|set|unsafe_split|as_strided"
    r"|_indices|_values|crow_indices|col_indices|_coalesced|_sparse_(coo|csr|compressed)_tensor\w*"
)
_WRITE_ONLY = re.compile(r"(copy|fill|zero|bernoulli|normal|uniform|exponential|random)_")
_TWICE = re.compile(r"(native_|cudnn_)?(batch|group)_norm(_backward)?|_native_batch_norm_legit|_batch_norm_with_update")
_GATHERING = re.compile(r"embedding|index|index_select|gather|take|nll_loss2?d?_forward")
_ADDING = re.compile(r"(index|scatter)_(add|reduce)_?|index_put_?|_index_put_impl_?|embedding_dense_backward")

_FACTORS_FIRST = ("_scaled_mm", "_grouped_mm", "_scaled_grouped_mm")

_KERNELS = {
    "embedding_dense_backward": 4,
    "_embedding_bag_backward": 4,
    "_embedding_bag_dense_backward": 4,
    "native_layer_norm_backward": 2,
    "native_group_norm": 3,
    "native_group_norm_backward": 4,
    "index_put": 3,
    "_index_put_impl": 3,
    "sort": 4,
    "topk": 2,
    "nonzero": 3,
    "masked_select": 4,
    "_unique2": 6,
    "_coalesce": 6,
}
_TENSORS_PER_KERNEL = 36
_ELEMENTS_PER_KERNEL = 320 * 65536
"""What one launch of PyTorch's multi-tensor kernels takes at most, with four lists of tensors."""
_FLOPS_PER_ELEMENT = {"elementwise": 1, "norm": 6, "reduction": 2, "pool": 1}


def class_of(base: str) -> str | None:
    """Return the class of `aten::<base>`; None where nothing is known.

    In-place variants count as the operator itself.
    """
    plain = base.rstrip("_")
    return next((name for name, pattern in _PATTERNS if pattern.fullmatch(plain)), None)


def simple_flops(cls: str | None, *, read: int, written: int) -> int:
    """FLOPs of what is no product: a few per element, of the output (elementwise) or of the larger side."""
    elements = written if cls == "elementwise" else max(read, written)
    return elements * _FLOPS_PER_ELEMENT.get(cls or "", 0)


def matmul(shapes: Sequence[Sequence[int]]) -> tuple[int, dict[str, int]]:
    """FLOPs and dimensions of a product of the last two of `shapes` (addmm has what it adds first)."""
    first, second = shapes[-2:]
    b = first[0] if len(first) == 3 else 1
    m, k = (first[-2] if len(first) > 1 else 1), first[-1]
    n = second[-1] if len(second) > 1 else 1
    return 2 * b * m * n * k, {"b": b, "m": m, "n": n, "k": k}


def convolution(
    data: Sequence[int], weight: Sequence[int], result: Sequence[int], *, transposed: bool, groups: int
) -> tuple[int, dict[str, int]]:
    """FLOPs and dimensions of one pass; every pixel of the larger-channel side takes every tap of its group."""
    small, large = (result, data) if transposed else (data, result)
    dims = {"b": data[0], "c": small[1], "k": large[1]}
    dims.update({"hwd"[axis]: size for axis, size in enumerate(large[2:])})
    dims.update({"rst"[axis]: size for axis, size in enumerate(weight[2:])})
    dims["groups"] = groups
    return 2 * math.prod(large) * math.prod(weight[1:]), dims


def attention_row(dims: dict[str, int], *, dtype: str, products: int) -> Row:
    """Fused attention: 2 products forward, 5 backward, where the scores are computed again."""
    return {
        "class": "attention",
        "name": "aten::scaled_dot_product_attention",
        "dtype": dtype,
        "kernels": 1 if products == 2 else 3,
        "flops": products * 2 * math.prod(dims.values()),
        "dims": dims,
    }


def recurrent_rows(spec: Row, *, backward: bool) -> list[Row]:
    """One row per layer and direction of cuDNN's fused LSTM, GRU or RNN.

    Every token meets every weight once forward and twice backward; each time step launches one kernel, beside the
    products that all steps share. `layers` holds per layer and direction the shapes of its weight matrices.
    """
    passes = 2 if backward else 1
    tokens, steps, size = spec["tokens"], spec["steps"], spec["itemBytes"]
    rows = []
    for weights in spec["layers"]:
        elements, gates, inputs = sum(map(math.prod, weights)), weights[0][0], weights[0][1]
        states = tokens * (inputs + gates) * size
        rows.append(
            {
                "class": "rnn",
                "name": spec["name"],
                "dtype": spec["dtype"],
                "kernels": steps + 2 * passes,
                "flops": 2 * passes * tokens * elements,
                "bytesRead": elements * size + states,
                "bytesWritten": states + (elements * size if backward else 0),
                "outputElements": passes * tokens * gates,
                "dims": {"b": -(-tokens // steps), "t": steps, "i": inputs, "h": weights[1][1]},
            }
        )
    return rows


# ---- The recorder: sees every ATen operator of a step --------------------------------------------------------------

_FIELDS = ("class", "name", "phase", "kernels", "flops", "bytesRead", "bytesWritten", "outputElements", "dtype")
_DEFAULTS: Row = {"kernels": 1, "flops": 0, "bytesRead": 0, "bytesWritten": 0, "outputElements": 0}
_TYPES = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float64: "fp64",
    torch.bool: "bool",
}


@dataclasses.dataclass(frozen=True)
class _Event:
    """One operator with the storages it reads and writes, each with its bytes; `loop`: elements it runs over."""

    row: Row
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]
    loop: int


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch is not there where types are checked
    """A dispatch mode that counts operators, the longest chain of them, and what autograd saves.

    Args:
        tf32: whether matrix products of fp32 tensors run as TF32. Convolutions and recurrent layers do so by
            PyTorch's default (`torch.backends.cudnn.allow_tf32`).
        examples: what a tensor would hold where the step asks, by function name or `file.py:line`; see `_Examples`.
        compiled: whether to fuse as torch.compile would; see `fused`.
    """

    def __init__(self, *, tf32: bool, examples: Row | None = None, compiled: bool = False) -> None:
        super().__init__()
        self.last = "nothing"
        """The operator that ran last: where a failing step stopped."""
        self.optimizer: str | None = None
        self.saved_peak_bytes = 0
        self.forced_phase: str | None = None
        self._longest, self._compiled = 0, compiled
        self._tf32_classes = {"conv", "rnn", "matmul", "attention"} if tf32 else set()
        if torch.backends.cudnn.allow_tf32:
            self._tf32_classes |= {"conv", "rnn"}
        self._examples = _Examples(examples or {})
        self._rows: dict[tuple[Any, ...], int] = {}
        self._events: list[_Event] = []
        self._unknown: collections.Counter[str] = collections.Counter()
        self._unknown_elements = 0
        self._depths: dict[int, tuple[Any, int]] = {}
        self._saved: dict[int, tuple[Any, int]] = {}
        self._not_saved: set[int] = set()
        self._paused = self._after_backward = False
        self._alive = _Alive()
        self._layouts: collections.Counter[bool | None] = collections.Counter()

    @property
    def alive_peak_bytes(self) -> int:
        """The most that was alive at once of what the step made: activations, copies, gradients."""
        return self._alive.peak_bytes

    @property
    def channels_last(self) -> bool:
        """Whether most of the convolutions' work is on tensors whose channels lie side by side."""
        return self._layouts[True] > self._layouts[False]

    @property
    def has_begun(self) -> bool:
        """Whether any operator of the step was seen."""
        return bool(self._rows)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator on meta, then record it; what touches only CPU tensors is the host's business."""
        if not func._schema.name.startswith("profiler::"):
            self.last = func._schema.name
        inputs = list(tensors_in([args, kwargs or {}]))
        args = self._examples.with_sized_masks(func, args)
        result = _missing_on_meta(func, args, inputs)
        if result is None:
            result = self._examples.answer(func, args, kwargs or {})
        result = func(*args, **(kwargs or {})) if result is None else result
        outputs = list(tensors_in([result]))
        self._alive.see(tensor for tensor in outputs if _key(tensor) not in self._not_saved)
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

    def attempted(self, function: Any, *args: Any) -> bool:
        """Return whether `function` ran through.

        If it asks for what meta tensors do not hold, nothing of it is counted.
        """
        rows, events = dict(self._rows), len(self._events)
        try:
            function(*args)
        except (RuntimeError, NotImplementedError):
            self._rows = rows
            del self._events[events:]
            return False
        return True

    def do_not_know(self, name: str) -> None:
        """Name an operator as unknown."""
        self._unknown[name] += 1

    def add(self, row: Row, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Count one operator: `class`, `name` and `dtype` are given, `phase` and the rest may be."""
        full = {**_DEFAULTS, "phase": self.forced_phase or _phase(), **row}
        if full["dtype"] == "fp32" and full["class"] in self._tf32_classes:
            full["dtype"] = "tf32"
        key = (*((field, full[field]) for field in _FIELDS), ("dims", tuple(full.get("dims", {}).items())))
        self._rows[key] = self._rows.get(key, 0) + 1
        self._after_backward = self._after_backward or full["phase"] == "Backward"
        if full["kernels"]:
            self._chain(full, inputs, outputs)
            if self._compiled:
                self._events.append(_event(full, inputs, outputs))

    def do_not_count_as_saved(self, tensors: Iterable[Tensor]) -> None:
        """Parameters, buffers and inputs: their memory is counted elsewhere."""
        self._not_saved.update(map(_key, tensors))

    def save(self, tensor: Tensor) -> Tensor:
        """Autograd keeps `tensor` for the backward pass: count its storage once, while it is alive."""
        again = _phase() == "Backward"  # a checkpointed part is computed again; what earlier parts kept is gone
        if again or self._after_backward:  # or a further forward pass of the same step begins
            self._saved = {key: entry for key, entry in self._saved.items() if not entry[0].expired()}
            self._after_backward = again
        key = _key(tensor)
        if key not in self._not_saved and key not in self._saved:
            self._saved[key] = (_weak(tensor), _bytes_behind(tensor))
            self.saved_peak_bytes = max(self.saved_peak_bytes, sum(entry[1] for entry in self._saved.values()))
        return tensor

    def rows(self) -> list[Row]:
        """Return the folded operators, in order of first occurrence; fused ones where the step is compiled."""
        counts = collections.Counter(map(_fold_key, self._fused[0])) if self._compiled else self._rows
        return [{**dict(key), "dims": dict(key[-1][1]), "repeat": repeat} for key, repeat in counts.items()]

    @property
    def longest(self) -> int:
        """Operators that must wait for one another."""
        return self._fused[1] if self._compiled else self._longest

    def coverage(self) -> Row:
        """Operators counted, and those of no known class: an unknown one is taken for one FLOP per output element."""
        known = sum(row["flops"] * row["repeat"] for row in self.rows())
        share = known / (known + self._unknown_elements) if self._unknown_elements else 1.0
        unknown = dict(sorted(self._unknown.items()))
        return {"operators": sum(self._rows.values()), "unknown": unknown, "flopsPercent": round(100 * share, 2)}

    @functools.cached_property
    def _fused(self) -> tuple[list[Row], int]:
        return fused(self._events)

    def _record(self, func: Any, args: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        name = func._schema.name
        base = name.split("::")[-1]
        if base.startswith("_foreach_") and base.endswith("_"):  # in place, and returns nothing
            outputs = list(tensors_in(args[:1]))
        row: Row = {"name": name, "dtype": type_of(outputs or inputs), "class": "copy", "kernels": 0}
        if not outputs or _WITHOUT_KERNEL.fullmatch(base.rstrip("_")) or _is_view(func):
            self.add(row, inputs, ())
            return
        cls = _class_of(func, base)
        if _is_sparse([*inputs, *outputs]):
            cls = "sparse"
        if cls is None:
            self._unknown[name] += 1
            self._unknown_elements += sum(tensor.numel() for tensor in outputs)
        amounts = _amounts(base, cls, args, (inputs, outputs))
        if cls == "conv":
            weight = args[2] if base == "convolution_backward" else args[1]
            self._layouts[_has_channels_last(weight)] += amounts["flops"]
        self.add({**row, "class": cls or "other", **amounts}, inputs, outputs)

    def _chain(self, row: Row, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> None:
        """Note the longest chain so far that ends at `outputs`; the steps of a recurrent layer follow one another."""
        serial = row["kernels"] if row["class"] == "rnn" else 1
        depth = serial + max((self._depths.get(_key(tensor), (None, 0))[1] for tensor in inputs), default=0)
        self._longest = max(self._longest, depth)
        for tensor in outputs:
            self._depths[_key(tensor)] = (_weak(tensor), depth)


class _Alive:
    """The storages that a step has made and that are there still, as the references of its Python keep them."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._known: dict[int, tuple[Any, int]] = {}
        self._total = 0

    def see(self, tensors: Iterable[Tensor]) -> None:
        """Count what an operator returned; what is gone is looked for only where the total might be a new peak."""
        for tensor in tensors:
            if tensor.is_meta and _key(tensor) not in self._known:
                entry = _weak(tensor), _bytes_behind(tensor)
                self._known[_key(tensor)] = entry
                self._total += entry[1]
        if self._total > self.peak_bytes:
            self._known = {key: entry for key, entry in self._known.items() if not entry[0].expired()}
            self._total = sum(entry[1] for entry in self._known.values())
            self.peak_bytes = max(self.peak_bytes, self._total)


def _missing_on_meta(func: Any, args: Any, inputs: Sequence[Tensor]) -> Tensor | None:
    """Return the result of what meta tensors cannot do.

    Products with a sparse matrix, and copies that keep its entries.
    """
    base = func._schema.name.split("::")[-1]
    if base == "_embedding_bag_dense_backward" and inputs[0].is_meta:  # torch 2.1
        return inputs[0].new_empty((args[5], inputs[0].shape[-1]))
    if not _is_sparse(inputs) or not inputs[0].is_meta:
        return None
    if base in ("mm", "addmm", "_sparse_addmm", "_sparse_mm") and inputs[-1].layout == torch.strided:
        left, right = inputs[-2:]
        return right.new_empty((left.shape[0], right.shape[1]))
    if base in ("clone", "_coalesce", "t", "transpose") and inputs[0].layout == torch.sparse_coo:
        indices, values = _parts(inputs[0])
        shape = inputs[0].shape if base in ("clone", "_coalesce") else inputs[0].shape[::-1]
        return torch.sparse_coo_tensor(indices, values.new_empty(values.shape), shape)
    return None


class _Examples:
    """Answers where a step asks for what a tensor holds: a value, or how many rows something has.

    Declared by the name of the function that asks, or as `file.py:line`; the innermost declared one of the functions
    that are running counts.
    """

    _SIZES = ("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave")

    def __init__(self, declared: Row) -> None:
        self._declared = declared

    def with_sized_masks(self, func: Any, args: Any) -> Any:
        """Put indices in place of boolean masks: as many as declared."""
        if func._schema.name != "aten::index" or not self._declared:
            return args
        masks = [tensor for tensor in args[1] if tensor is not None and tensor.dtype == torch.bool]
        count = self._value() if masks else None
        if count is None:
            return args
        indices: list[Tensor | None] = []
        for tensor in args[1]:
            is_mask = tensor is not None and tensor.dtype == torch.bool
            indices += [tensor.new_empty(int(count), dtype=torch.long) for _ in tensor.shape] if is_mask else [tensor]
        return (args[0], indices, *args[2:])

    def answer(self, func: Any, args: Any, kwargs: Row) -> Any:
        """Return the result of an operator whose result, or its size, is data; None: run it."""
        name = func._schema.name.split("::")[-1]
        if name == "rand" and not args[0]:  # a die in Python, as layer drop throws it: on the CPU but for our default
            return torch.full((), 0.5, device="cpu")
        tensor = next(tensors_in(args), None)
        if not self._declared or tensor is None or not tensor.is_meta:
            return None
        to_cpu = name == "_to_copy" and str(kwargs.get("device")) == "cpu"
        asks = name == "_local_scalar_dense" or name in self._SIZES or to_cpu
        value = self._value() if asks else None
        if value is None or name == "_local_scalar_dense":
            return value
        if to_cpu:
            return torch.full(tensor.shape, value, dtype=tensor.dtype, device="cpu")
        return self._sized(name, tensor, int(value))

    def _value(self) -> Any:
        frame: Any = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            for key in (f"{Path(code.co_filename).name}:{frame.f_lineno}", code.co_name):
                if key in self._declared:
                    return self._declared[key]
            frame = frame.f_back
        return None

    @staticmethod
    def _sized(name: str, tensor: Tensor, rows: int) -> Any:
        places = functools.partial(tensor.new_empty, dtype=torch.long)
        if name == "nonzero":
            return places((rows, tensor.dim()))
        if name == "repeat_interleave":
            return places((rows,))
        if name == "masked_select":
            return tensor.new_empty((rows,))
        values = tensor.new_empty((rows, *tensor.shape[1:]) if name == "unique_dim" else (rows,))
        return values, places(tensor.shape if name != "unique_dim" else tensor.shape[:1]), places((rows,))


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors in nested lists, tuples and dicts."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Bytes of the elements that are there: an expanded dimension counts once, of a sparse tensor its entries."""
    return sum(part.element_size() * _elements(part) for tensor in tensors for part in _parts(tensor))


def type_of(tensors: Sequence[Tensor]) -> str:
    """Return the graph document's name of the first tensor's type."""
    dtype = tensors[0].dtype if tensors else torch.float32
    return _TYPES.get(dtype, str(dtype).replace("torch.", "").replace("float8", "fp8"))


def _parts(tensor: Tensor) -> list[Tensor]:
    """Return the dense tensors that a tensor consists of: of a sparse one, its indices and values."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    compressed = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    indices = (tensor.crow_indices, tensor.col_indices) if compressed else (tensor.ccol_indices, tensor.row_indices)
    return [indices[0](), indices[1](), tensor.values()]


def _is_sparse(tensors: Iterable[Tensor]) -> bool:
    return any(tensor.layout not in (torch.strided, torch._mkldnn) for tensor in tensors)


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
    elements = sum(tensor.numel() for tensor in outputs)
    row: Row = {"bytesRead": _read(base, args, tensors), "bytesWritten": written, "outputElements": elements}
    row["kernels"] = _KERNELS.get(base.rstrip("_"), 1)
    if base.startswith("_foreach_"):
        moved = list(tensors_in(args[:1]))
        return {**row, "kernels": _sweeping_kernels(moved), "flops": sum(tensor.numel() for tensor in moved)}
    if cls == "conv":
        return {**row, **_convolution(base, args, outputs)}
    if cls == "matmul":
        factors = inputs[:2] if base in _FACTORS_FIRST else [tensor for tensor in inputs if tensor.dim()]
        flops, dims = matmul([tensor.shape for tensor in factors])
        return {**row, "flops": flops, "dims": dims}
    if cls == "sparse":
        return {**row, **_sparse(base, inputs, outputs)}
    largest = max((tensor.numel() for tensor in inputs), default=0)
    row["flops"] = simple_flops(cls, read=largest, written=max(tensor.numel() for tensor in outputs))
    return row


def _sweeping_kernels(tensors: Sequence[Tensor]) -> int:
    """Count the launches of a multi-tensor kernel over so many tensors and elements."""
    elements = int(sum(tensor.numel() for tensor in tensors))
    return max(math.ceil(len(tensors) / _TENSORS_PER_KERNEL), math.ceil(elements / _ELEMENTS_PER_KERNEL))


def _read(base: str, args: Any, tensors: tuple[list[Tensor], list[Tensor]]) -> int:
    """Bytes read: an operator that picks reads what it picks, and statistics come before a norm's main pass."""
    inputs, outputs = tensors
    read = bytes_of(inputs[1:] if _WRITE_ONLY.fullmatch(base) else inputs)
    if base.startswith("_embedding_bag") and "backward" not in base:
        picked = int(inputs[1].numel() * inputs[0].shape[-1] * inputs[0].element_size())
        return picked + bytes_of(inputs[1:])
    if _GATHERING.fullmatch(base):
        return min(read, bytes_of(outputs) + bytes_of(inputs[1:]))
    if _TWICE.fullmatch(base) and not any(argument is False for argument in args):  # False: not training
        return 2 * read
    return read


def _sparse(base: str, inputs: list[Tensor], outputs: list[Tensor]) -> Row:
    """Return a product with a sparse matrix meets every stored entry with a row; additions add every element once."""
    stored = next((tensor for tensor in inputs if tensor.layout != torch.strided), None)
    dense = [tensor for tensor in inputs if tensor.layout == torch.strided and tensor.dim() == 2]
    if stored is not None and dense and "mm" in base:
        entries, width = _parts(stored)[-1].shape[0], dense[-1].shape[-1]
        dims = {"entries": entries, "m": outputs[0].shape[0], "n": width, "k": stored.shape[-1]}
        picked = min(entries * width * outputs[0].element_size(), bytes_of(dense[-1:]))
        read = bytes_of([stored]) + picked
        return {"flops": 2 * entries * width, "bytesRead": read, "dims": dims}
    if _ADDING.fullmatch(base) and inputs:
        return {"flops": inputs[-1].numel() if base != "index_put" else 0}
    return {"flops": 0}


def _has_channels_last(weight: Tensor) -> bool | None:
    """Return whether a filter has its channels side by side; None where one of a single pixel, or channel, cannot tell.

    The library follows the filter where it differs from the data, whose layout meta tensors lose on the way.
    """
    if weight.dim() < 4 or weight.shape[1] == 1 or math.prod(weight.shape[2:]) == 1:
        return None
    return bool(weight.stride(1) == 1)


def _convolution(base: str, args: Any, outputs: list[Tensor]) -> Row:
    """Return its row: the backward pass is one product for each of data and weight whose gradient is asked for."""
    if base != "convolution_backward":
        data, weight, bias, transposed, groups = args[0], args[1], args[2], args[6], args[8]
        result, passes, kernels = outputs[0], 1, 1 if bias is None else 2
    else:
        result, data, weight = args[:3]
        transposed, groups, mask = args[7], args[9], args[10]
        passes, kernels = int(mask[0]) + int(mask[1]), sum(map(int, mask))
    flops, dims = convolution(data.shape, weight.shape, result.shape, transposed=bool(transposed), groups=groups)
    return {"flops": passes * flops, "dims": dims, "kernels": kernels}


@functools.cache
def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return bool(returns) and all(value.alias_info and not value.alias_info.is_write for value in returns)


@functools.cache
def _class_of(func: Any, base: str) -> str | None:
    known = class_of(base)
    if known is not None:
        return known
    functional = getattr(torch.ops.aten, base.rstrip("_"), None)  # in-place variants do not all carry the tag
    overloads = [func] + [getattr(functional, name) for name in (functional.overloads() if functional else ())]
    return "elementwise" if any(torch.Tag.pointwise in overload.tags for overload in overloads) else None


def _key(tensor: Tensor) -> int:
    return int(_parts(tensor)[-1].untyped_storage()._cdata)


def _weak(tensor: Tensor) -> Any:
    """Return what, while it is held, keeps the key of a tensor's storage from being given to another storage."""
    return StorageWeakRef(_parts(tensor)[-1].untyped_storage())


def _bytes_behind(tensor: Tensor) -> int:
    return sum(int(part.untyped_storage().nbytes()) for part in _parts(tensor))


def _fold_key(row: Row) -> tuple[Any, ...]:
    return (*((field, row[field]) for field in _FIELDS), ("dims", tuple(row.get("dims", {}).items())))


def _event(row: Row, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> _Event:
    reads = tuple((_key(tensor), bytes_of([tensor])) for tensor in inputs)
    writes = tuple((_key(tensor), bytes_of([tensor])) for tensor in outputs)
    sizes = [tensor.numel() for tensor in outputs]
    if row["class"] in ("norm", "reduction"):
        sizes += [tensor.numel() for tensor in inputs]
    return _Event(row, reads, writes, max(sizes, default=0))


# ---- What torch.compile would make of it ---------------------------------------------------------------------------

_LARGEST_GROUP = 64
_SEALING_RESULTS = 256
"""A reduction to fewer results than this takes two passes: nothing else of its kernel can use them."""
_ALONE = re.compile(
    r"aten::(_foreach_\w+|sort|topk|cum\w+|multinomial|_unique2?|unique_\w+|bincount|histc|_?ctc_loss\w*|_cdist\w*)_?"
)
_PICKING = re.compile(r"aten::(index|index_select|gather|take|embedding)")
_MADE = re.compile(r"aten::(new_)?(arange|zeros|ones|full|scalar_tensor|linspace|eye)(_like)?")
_KINDS = ("norm", "reduction", "pool", "embedding", "sparse", "elementwise", "copy")


@dataclasses.dataclass(frozen=True)
class _Use:
    """An event with the bytes it reads and writes, by version: each write of a storage makes another version of it."""

    event: _Event
    reads: dict[int, int]
    writes: dict[int, int]

    @property
    def row(self) -> Row:
        return self.event.row

    @property
    def fusable(self) -> bool:
        """Whether the operator can share a kernel."""
        if self.row["phase"] == "Optimizer" or _ALONE.fullmatch(self.row["name"]):
            return False
        if self.row["class"] in ("sparse", "embedding"):
            return _PICKING.fullmatch(self.row["name"]) is not None
        return self.row["class"] in _KINDS

    @property
    def reads_twice(self) -> bool:
        """Whether a pass over the whole input comes before another one, as in a training batch norm."""
        is_norm = _TWICE.fullmatch(self.row["name"].split("::")[-1]) is not None
        return is_norm and self.row["bytesRead"] > 1.5 * sum(size for _, size in self.event.reads)

    @property
    def results(self) -> int | None:
        """To how many values it reduces; -1 where it reduces rows and writes them whole; None: it does not reduce."""
        if self.row["class"] == "norm":
            return -1
        if self.row["class"] != "reduction":
            return None
        return int(self.row["outputElements"]) if self.row["outputElements"] < self.event.loop else -1


class _Group:
    """Operators that become one kernel."""

    def __init__(self, use: _Use, level: int) -> None:
        self.uses: list[_Use] = []
        self.level, self.loop = level, use.event.loop
        self.fusable, self.phase = use.fusable, use.row["phase"]
        self.reads: dict[int, int] = {}
        self.writes: dict[int, int] = {}
        self._results: int | None = None
        self._sealed: set[int] = set()
        self.enter(use)

    def enter(self, use: _Use) -> None:
        """Take it in."""
        self.uses.append(use)
        self.reads.update({version: max(size, self.reads.get(version, 0)) for version, size in use.reads.items()})
        self.writes.update(use.writes)
        if use.results is not None:
            self._results = use.results
            if 0 <= use.results < _SEALING_RESULTS:
                self._sealed.update(use.writes)
        if use.row["class"] == "pool":
            self.loop = use.event.loop

    def takes(self, use: _Use, *, only_reader: bool) -> bool:
        """Return whether it can be computed in this kernel, too; `only_reader`: of what it reads from here."""
        if not (self.fusable and use.fusable and self.phase == use.row["phase"] and len(self.uses) < _LARGEST_GROUP):
            return False
        if use.reads_twice or use.results not in (None, self._results or use.results):
            return False
        if use.row["class"] == "pool":
            return only_reader and all(member.row["class"] in ("elementwise", "copy") for member in self.uses)
        if use.event.loop == self.loop:
            return self._sealed.isdisjoint(use.reads)
        return use.event.loop == self._results


def fused(events: Sequence[_Event]) -> tuple[list[Row], int]:
    """Return the rows of a compiled step, and the longest chain of them.

    A model of what TorchInductor does on a GPU by default, applied to the recorded operators: nothing is compiled, so
    it needs neither a GPU nor Triton. Modelled: pointwise operators, gathers, reductions over rows and norms that run
    over the same elements become one kernel where one reads what another writes, or both read the same tensor and
    neither waits for the other; at most 64 to a kernel, never across forward and backward. What stays inside a kernel
    is neither written nor read; constants and ranges are computed where they are used; a convolution's bias
    joins what follows. Statistics over a batch start a kernel, and reductions to few results end theirs. Products,
    convolutions, attention, recurrent layers, scatters, sorts and the optimizer run as they are. FLOPs stay.

    Not modelled: computing cheap operators again in the backward pass instead of saving them, or for two kernels
    instead of storing them (so bytes and saved activations are upper bounds); generated products (`max-autotune`);
    CUDA graphs; graph breaks.
    """
    uses = _versioned(_split_biases(events))
    users: dict[int, list[_Use]] = collections.defaultdict(list)
    for use in uses:
        for version in use.reads:
            users[version].append(use)
    inlined = {v for use in uses if _MADE.fullmatch(use.row["name"]) for v in use.writes if _inlinable(users[v])}
    groups = _grouped([use for use in uses if not use.writes or not inlined.issuperset(use.writes)], users)
    rows = [row for group in groups for row in _rows_of(group, users, inlined)]
    return rows, max((group.level for group in groups), default=0)


def _inlinable(users: Sequence[_Use]) -> bool:
    return bool(users) and all(user.fusable for user in users)


def _split_biases(events: Iterable[_Event]) -> Iterator[_Event]:
    """Yield a convolution's bias as an addition of its own."""
    for event in events:
        row = event.row
        if row["name"] != "aten::convolution" or row["kernels"] != 2:
            yield event
            continue
        yield dataclasses.replace(event, row={**row, "kernels": 1})
        size = event.writes[0][1]
        addition = {**row, "class": "elementwise", "name": "aten::bias", "kernels": 1, "flops": 0, "dims": {}}
        addition.update(bytesRead=size, bytesWritten=size)
        yield _Event(addition, event.writes[:1], event.writes[:1], row["outputElements"])


def _versioned(events: Iterable[_Event]) -> list[_Use]:
    current: dict[int, int] = {}
    numbers = iter(range(1 << 62))
    found = []
    for event in events:
        total = sum(size for _, size in event.reads)
        scale = event.row["bytesRead"] / total if total else 0.0
        reads: dict[int, int] = {}
        for key, size in event.reads:
            version = current.setdefault(key, next(numbers))
            reads[version] = max(reads.get(version, 0), int(size * scale))
        current.update({key: next(numbers) for key, _ in event.writes})
        found.append(_Use(event, reads, {current[key]: size for key, size in event.writes}))
    return found


def _grouped(uses: Iterable[_Use], users: dict[int, list[_Use]]) -> list[_Group]:
    """Return groups in order of their first operator; a group's level is more than that of whatever it waits for.

    An operator may join a group only where everything else it reads comes from lower levels: then nothing that it reads
    can itself wait for the group.
    """
    groups: list[_Group] = []
    makers: dict[int, _Group] = {}
    readers: dict[int, list[_Group]] = collections.defaultdict(list)
    for use in uses:
        producers = list({id(makers[v]): makers[v] for v in use.reads if v in makers}.values())
        top = max((producer.level for producer in producers), default=0)
        highest = [producer for producer in producers if producer.level == top]
        beside = [group for v in use.reads for group in readers[v] if group.level == top + 1]
        only_reader = all(len(users[version]) == 1 for version in use.reads if version in makers)
        candidates = (highest if len(highest) == 1 else []) + beside
        group = next((group for group in candidates if group.takes(use, only_reader=only_reader)), None)
        if group is None:
            group = _Group(use, top + (use.row["kernels"] if use.row["class"] == "rnn" else 1))
            groups.append(group)
        else:
            group.enter(use)
        makers.update(dict.fromkeys(use.writes, group))
        for version in use.reads:
            readers[version].append(group)
    return groups


def _rows_of(group: _Group, users: dict[int, list[_Use]], inlined: set[int]) -> list[Row]:
    rows = [use.row for use in group.uses]
    if len(rows) == 1 and rows[0]["name"] == "aten::bias":  # written with the convolution's result, for all we know
        return [{**rows[0], "bytesRead": 0, "bytesWritten": 0}]
    if len(rows) == 1:
        made = sum(size for version, size in group.reads.items() if version in inlined)
        return [{**rows[0], "bytesRead": rows[0]["bytesRead"] - made}]
    members = {id(use) for use in group.uses}
    stays = {v for v in group.writes if users[v] and members.issuperset(map(id, users[v]))}
    outside = (size for v, size in group.reads.items() if v not in group.writes and v not in inlined)
    bases = dict.fromkeys(row["name"].split("::")[-1] for row in rows)
    classes = {row["class"] for row in rows}
    return [
        {
            "class": next(kind for kind in _KINDS if kind in classes),
            "name": "fused::" + "_".join(bases)[:96],
            "phase": group.phase,
            "kernels": 1 + sum(row["kernels"] - 1 for row in rows),
            "flops": sum(row["flops"] for row in rows),
            "bytesRead": sum(outside),
            "bytesWritten": sum(size for v, size in group.writes.items() if v not in stays),
            "outputElements": max(row["outputElements"] for row in rows),
            "dtype": rows[-1]["dtype"],
            "dims": {"operators": len(rows)},
        }
    ]


# ---- Where CUDA would run other operators than the meta device does ------------------------------------------------

# Operators are caught above autograd, at the dispatch key of CPU autocast: its own kernels leave meta tensors alone.
# torch's function modes, the public way, do not see what C++ calls, einsum's products for one.

# What torch.autocast runs in the lower precision on CUDA, and what in fp32 (of what models use).
_CAST_DOWN = """
    linear matmul mm bmm addmm baddbmm addbmm mv addmv convolution _convolution conv1d conv2d conv3d
    conv1d.padding conv2d.padding conv3d.padding conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input prelu
"""
_CAST_UP = """
    layer_norm native_layer_norm group_norm softmax.int log_softmax.int nll_loss nll_loss_nd nll_loss2d
    cross_entropy_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits
    kl_div exp log log1p rsqrt reciprocal softplus pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar cumsum
    cumprod prod logsumexp cosine_similarity sum sum.dim_IntList
"""
_RECURRENT = [kind + form for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in (".input", ".data")]


@contextlib.contextmanager
def caught(recorder: Recorder, casts: Casts) -> Iterator[None]:
    """While open, attention, dropout and recurrent layers are one operator each, and `casts` apply and are told of."""
    key = torch._C.DispatchKey.AutocastCPU
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # replacing CPU autocast's kernels is the purpose
        for name, body in _bodies(recorder, casts).items():
            library.impl(name, _behind_the_key(body), "AutocastCPU")
    torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
    torch._C._dispatch_tls_set_dispatch_key_included(key, True)
    try:
        with _told_of(casts):
            yield
    finally:
        torch._C._dispatch_tls_set_dispatch_key_included(key, False)
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, True)
        if hasattr(library, "_destroy"):
            library._destroy()
        del library  # which is enough in older releases


@contextlib.contextmanager
def _told_of(casts: Casts) -> Iterator[None]:
    """Code that asks torch for autocast, on the meta device or on CUDA, hears of `casts`, and can turn them off."""
    here = (None, "meta", "cuda")
    asked, context = torch.is_autocast_enabled, torch.autocast
    dtype_of: Any = getattr(torch, "get_autocast_dtype", None)  # older releases have none

    def is_enabled(device_type: str | None = None) -> bool:
        return casts.active if device_type in here else asked(device_type)

    def get_dtype(device_type: str) -> torch.dtype:
        return (casts.lower or torch.float16) if device_type in here else dtype_of(device_type)

    def autocast(device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None) -> Any:
        if device_type in here and casts.lower is not None:
            return casts.switched(on=enabled)
        if device_type == "meta":
            return contextlib.nullcontext()
        return context(device_type, dtype, enabled, cache_enabled)

    told = {"is_autocast_enabled": is_enabled, "get_autocast_dtype": get_dtype, "autocast": autocast}
    before = {name: getattr(torch, name) for name in told if hasattr(torch, name)}
    vars(torch).update(told)
    torch.amp.autocast = autocast
    try:
        yield
    finally:
        for name in told:
            delattr(torch, name)
        vars(torch).update(before)
        torch.amp.autocast = context


class Casts:
    """What torch.autocast does on CUDA; it knows no meta tensors. `lower` is None: nothing."""

    def __init__(self, lower: torch.dtype | None) -> None:
        self.lower = lower
        self.active = lower is not None
        self._weights: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def names(self) -> dict[str, Callable[[Any], Any]]:
        """Operators by the cast that their arguments take."""
        if self.lower is None:
            return {}
        return {**dict.fromkeys(_CAST_DOWN.split(), self.down), **dict.fromkeys(_CAST_UP.split(), self.up)}

    def down(self, value: Any) -> Any:
        """Floating-point tensors in the lower precision; a weight is cast once per step, as autocast caches it."""
        if isinstance(value, (list, tuple)):
            return [self.down(item) for item in value]
        is_castable = isinstance(value, Tensor) and value.dtype in (torch.float32, *_LOWER.values())
        if not self.active or not is_castable or value.dtype == self.lower:
            return value
        if not (value.requires_grad and value.is_leaf):
            return value.to(self.lower)
        if id(value) not in self._weights:
            # Both are kept: the id of a value that is gone may be given to another.
            self._weights[id(value)] = (value, value.to(self.lower))
        return self._weights[id(value)][1]

    def up(self, value: Any) -> Any:
        """Tensors of a lower precision as fp32."""
        is_lower = isinstance(value, Tensor) and value.dtype in _LOWER.values()
        return value.float() if self.active and is_lower else value

    @contextlib.contextmanager
    def switched(self, *, on: bool) -> Iterator[None]:
        """While open, they are on or off, as a part of the user's step asks."""
        before, self.active = self.active, on
        try:
            yield
        finally:
            self.active = before

    def forget(self) -> None:
        """Forget what was cast: the weights have changed."""
        self._weights.clear()


class _Fused(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """An operator that is one row forward and one backward; `plan` says which."""

    @staticmethod
    def forward(ctx: Any, recorder: Recorder, plan: Any, *tensors: Tensor) -> Any:
        outputs, kept = recorder.unrecorded(plan.allocate, tensors)
        ctx.recorder, ctx.plan = recorder, plan
        ctx.save_for_backward(*tensors, outputs[0], *kept)
        for row in plan.rows(backward=False):
            recorder.add(_with_bytes(row, tensors, [*outputs, *kept]), [*tensors, *outputs], outputs)
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        saved = ctx.saved_tensors
        needed = ctx.recorder.unrecorded(
            lambda: [torch.empty_like(saved[i]) if need else None for i, need in enumerate(ctx.needs_input_grad[2:])]
        )
        results = list(tensors_in(needed))
        for row in ctx.plan.rows(backward=True):
            inputs = [*gradients, *saved]
            ctx.recorder.add(_with_bytes(row, inputs, results), [*inputs, *results], results)
        return (None, None, *needed)


class _Attention:
    """Attention as one kernel that never writes the scores, as flash and memory-efficient attention are."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        heads = query.shape[1] if query.dim() == 4 else 1
        self._dims = {"b": query.shape[0], "heads": heads, "q": query.shape[-2], "k": key.shape[-2]}
        self._dims["d"] = query.shape[-1]
        self._dtype, self._width = type_of([query]), value.shape[-1]

    def allocate(self, tensors: Sequence[Tensor]) -> tuple[Any, Any]:
        query = tensors[0]
        shape = (*query.shape[:-1], self._width)
        output = query.new_empty(shape)
        if query.dim() == 4:  # heads lie side by side, as CUDA's kernels write them: merging them copies nothing
            output = query.new_empty((shape[0], shape[2], shape[1], shape[3])).transpose(1, 2).detach()
        return (output,), (query.new_empty(query.shape[:-1], dtype=torch.float32),)

    def rows(self, *, backward: bool) -> list[Row]:
        return [attention_row(self._dims, dtype=self._dtype, products=5 if backward else 2)]


class _Recurrent:
    """aten::lstm, gru or rnn_*, padded (`.input`) or packed (`.data`): all layers in cuDNN's fused kernels."""

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        kind, _, form = name.partition(".")
        data, packed = args[0], form == "data"
        hidden, weights, _biases, layers, _dropout, train, bidirectional = args[2 if packed else 1 :][:7]
        self.states = list(hidden) if isinstance(hidden, (list, tuple)) else [hidden]
        self.weights = list(weights)
        directions = 2 if bidirectional else 1
        each = len(weights) // (layers * directions)
        groups = [weights[i : i + each] for i in range(0, len(weights), each)]
        self._shape = (*data.shape[:-1], self.states[0].shape[-1] * directions)
        self._spec = {
            "name": "aten::" + kind,
            "layers": [[tuple(w.shape) for w in group if w.dim() == 2] for group in groups],
            "tokens": data.shape[0] if packed else data.shape[0] * data.shape[1],
            "steps": args[1].shape[0] if packed else data.shape[1 if args[8] else 0],
            "dtype": type_of([data]),
            "itemBytes": data.element_size(),
        }
        self._reserve = self._spec["tokens"] * sum(group[0].shape[0] for group in groups) if train else 0

    def allocate(self, tensors: Sequence[Tensor]) -> tuple[Any, Any]:
        data = tensors[0]
        outputs = (data.new_empty(self._shape), *(data.new_empty(state.shape) for state in self.states))
        return outputs, (data.new_empty(self._reserve),)

    def rows(self, *, backward: bool) -> list[Row]:
        return recurrent_rows(self._spec, backward=backward)


class _Cell:
    """The pointwise half of an LSTM or GRU cell, which CUDA runs as one kernel behind the two products."""

    def __init__(self, kind: str, gates: Tensor, states: Sequence[Tensor]) -> None:
        self._kind, self._dtype, self._states = kind, type_of([gates]), states
        self._flops = 5 * gates.numel()

    def allocate(self, tensors: Sequence[Tensor]) -> tuple[Any, Any]:
        workspace = tensors[0].new_empty(tensors[0].shape)
        return tuple(workspace.new_empty(state.shape) for state in self._states), (workspace,)

    def rows(self, *, backward: bool) -> list[Row]:
        name, kernels = f"aten::_thnn_fused_{self._kind}_cell", 2 if backward else 1
        return [{"class": "elementwise", "name": name, "dtype": self._dtype, "kernels": kernels, "flops": self._flops}]


def _bodies(recorder: Recorder, casts: Casts) -> dict[str, Callable[..., Any]]:
    def dropout(tensor: Tensor, share: float, train: bool) -> Tensor:
        return torch.native_dropout(tensor, share, True)[0] if train and 0 < share < 1 else tensor

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *_: Any, **__: Any) -> Any:
        tensors = [casts.down(tensor) for tensor in (query, key, value, attn_mask) if tensor is not None]
        return _Fused.apply(recorder, _Attention(*tensors[:3]), *tensors)

    def recurrent(name: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            arguments = [casts.down(argument) for argument in args]
            plan = _Recurrent(name, arguments)
            return _Fused.apply(recorder, plan, arguments[0], *plan.states, *plan.weights)

        return run

    def cell(kind: str) -> Callable[..., Any]:
        def run(data: Any, hidden: Any, weight: Any, recurrent_weight: Any, *biases: Any) -> Any:
            states = [casts.down(state) for state in (hidden if isinstance(hidden, (list, tuple)) else [hidden])]
            products = [
                torch.mm(casts.down(left), casts.down(right).t())
                for left, right in ((data, weight), (states[0], recurrent_weight))
            ]
            tensors = [*products, *states, *(casts.down(bias) for bias in biases if bias is not None)]
            return _Fused.apply(recorder, _Cell(kind, products[0], states), *tensors)

        return run

    def casting(operator: Any, cast: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: operator(*map(cast, args), **{k: cast(v) for k, v in kwargs.items()})

    bodies: dict[str, Callable[..., Any]] = {"dropout": dropout, "scaled_dot_product_attention": attention}
    bodies.update({name: recurrent(name) for name in _RECURRENT})
    bodies.update({f"{kind}_cell": cell(kind) for kind in ("lstm", "gru")})
    for name, cast in casts.names.items():
        operator = _overload(name)
        if operator is not None:
            bodies[name] = casting(operator, cast)
    return bodies


def _behind_the_key(body: Callable[..., Any]) -> Callable[..., Any]:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return body(*args, **kwargs)

    return run


def _overload(name: str) -> Any:
    """Return the ATen operator; None where this release of torch has none of the name."""
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base, None), overload or "default", None)


def _with_bytes(row: Row, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Row:
    elements = sum(tensor.numel() for tensor in outputs)
    return {"bytesRead": bytes_of(inputs), "bytesWritten": bytes_of(outputs), "outputElements": elements, **row}


# ---- Optimizers ----------------------------------------------------------------------------------------------------

_NOT_SWEPT = ("Muon",)
"""Of torch.optim, but more than a pass over each element."""


@contextlib.contextmanager
def swept_optimizers(recorder: Recorder, casts: Casts) -> Iterator[None]:
    """Optimizers made meanwhile are counted as CUDA runs them, not as their Python per parameter.

    Those of torch.optim take one fused sweep for a step. Others run their own Python, and its operators are counted; if
    it asks what a tensor holds, a sweep is assumed, and the optimizer named as unknown.
    """
    original = Optimizer.__init__

    def patched(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.step = types.MethodType(step, self)

    def step(self: Any, closure: Any = None) -> Any:
        name = type(self).__name__
        recorder.optimizer = recorder.optimizer or name.lower()
        _refuse_searching(self)
        loss = closure() if closure is not None else None
        is_known = type(self) is getattr(torch.optim, name, None) and name not in _NOT_SWEPT
        if is_known or not recorder.attempted(_run_itself, recorder, self):
            _sweep(recorder, self)
            if not is_known:
                recorder.do_not_know("optimizer::" + name.lower())
        casts.forget()
        return loss

    Optimizer.__init__ = patched
    try:
        with _multi_tensor_on_meta():
            yield
    finally:
        Optimizer.__init__ = original


@contextlib.contextmanager
def _multi_tensor_on_meta() -> Iterator[None]:
    """Gradient clipping takes the multi-tensor kernels that it takes on CUDA, where this release can be told to."""
    module: Any = getattr(torch.utils, "_foreach_utils", None)
    original = getattr(module, "_get_foreach_kernels_supported_devices", None)
    try:
        torch._foreach_norm([torch.empty(1, device="meta")])
    except NotImplementedError:  # torch 2.1
        original = None
    if original is None:
        yield
        return
    module._get_foreach_kernels_supported_devices = lambda: [*original(), "meta"]
    try:
        yield
    finally:
        module._get_foreach_kernels_supported_devices = original


def _refuse_searching(optimizer: Optimizer) -> None:
    if isinstance(optimizer, torch.optim.LBFGS):
        remedy = "extract the step with another optimizer, or a step function of one evaluation"
        reason = "evaluates the model as often as its line search, which decides by values, asks"
        raise ExtractionError("optimizer::lbfgs", "the optimizer", reason=reason, remedy=remedy)


def _sweep(recorder: Recorder, optimizer: Optimizer) -> None:
    """One pass over parameters, gradients and state, as CUDA's multi-tensor kernels make it."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    gradients = [p.grad for p in parameters]
    weights, moved, elements = bytes_of(parameters), bytes_of(gradients), sum(p.numel() for p in parameters)
    state = int(weights * recorder.unrecorded(_state_per_parameter, optimizer))
    touched = 1.0
    if type(optimizer).__name__ == "SparseAdam":  # only the rows that have gradients
        touched = min(1.0, moved / weights) if weights else 1.0
    passed = int(touched * (weights + state))
    row: Row = {"class": "elementwise", "name": "optimizer::" + type(optimizer).__name__.lower(), "phase": "Optimizer"}
    row.update(dtype=type_of(parameters), flops=int(4 * touched * elements), outputElements=elements)
    row.update(kernels=_sweeping_kernels(parameters), bytesRead=passed + moved, bytesWritten=passed)
    row["dims"] = {"tensors": len(parameters), "stateBytes": state, "gradientBytes": moved}
    recorder.add(row, gradients, parameters)


def _run_itself(recorder: Recorder, optimizer: Optimizer) -> None:
    """Run the optimizer's own step on meta tensors, and count every operator.

    Its state gets a row without kernels.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    recorder.forced_phase = "Optimizer"
    try:
        with torch.device("cpu"):  # where counts of steps live; what is like a parameter stays on meta
            type(optimizer).step(optimizer)
    finally:
        recorder.forced_phase = None
    state = [tensor for p in parameters for tensor in tensors_in([dict(optimizer.state).get(p, {})]) if tensor.is_meta]
    row: Row = {"class": "copy", "name": "optimizer::" + type(optimizer).__name__.lower(), "phase": "Optimizer"}
    row.update(dtype=type_of(parameters), kernels=0)
    row["dims"] = {"stateBytes": bytes_of(state), "gradientBytes": bytes_of(p.grad for p in parameters)}
    recorder.add(row, (), ())


def _state_per_parameter(optimizer: Optimizer) -> float:
    """State elements per parameter element, found by one real step of a twin on one small CPU parameter."""
    example = torch.nn.Parameter(torch.zeros(256, 256, device="cpu"))
    example.grad = torch.zeros(256, 256, device="cpu")
    if type(optimizer).__name__ == "SparseAdam":
        example.grad = example.grad.to_sparse()
    twin = object.__new__(type(optimizer))
    twin.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    settings = {**optimizer.param_groups[0], "params": [example], "foreach": False, "fused": False}
    twin.param_groups, twin.state = [{**settings, "capturable": False}], collections.defaultdict(dict)
    with torch.device("cpu"):
        if type(optimizer).__name__ == "Adagrad":  # older releases make its state when it is made
            twin.state[example] = {"step": torch.zeros(()), "sum": torch.zeros_like(example)}
        type(optimizer).step(twin)
    kept = [tensor.numel() for tensor in tensors_in([dict(twin.state).get(example, {})]) if tensor.dim()]
    return float(sum(kept) / example.numel())


# ---- The step ------------------------------------------------------------------------------------------------------


def extract(build: Callable[[], Any], options: Row) -> Row:
    """One step of what `build` returns, as a graph document without digest.

    Args:
        build: called under `torch.device("meta")`; what it may return is said at `_Job`.
        options: `name`, `batchSize`, `mode` (Training, Inference), `precision`, `optimizer` (a class of torch.optim
            in any case, with options: `sgd:momentum=0.9`), `host`, `inference`, `compiled` (see `fused`), and
            `examples`: for a step that asks what a tensor holds, the answer by the name of the function that asks, or
            by `file.py:line` (the value, or the number of rows of what a mask selects).

    Raises:
        ExtractionError: the step needs values that meta tensors do not have, `build` returns no job, or this release
            of torch lacks what the extractor needs.
    """
    _require_hooks()
    compiled = bool(options.get("compiled"))
    tf32 = options["precision"] == "tf32"
    recorder = Recorder(tf32=tf32, examples=options.get("examples"), compiled=compiled)
    casts = Casts(_LOWER.get(options["precision"]))
    with contextlib.ExitStack() as stack:
        stack.enter_context(_explained(recorder))
        stack.enter_context(swept_optimizers(recorder, casts))
        stack.enter_context(_module_of_meta())
        stack.enter_context(torch.device("meta"))
        job = _Job(build(), optimizer=options.get("optimizer") or "adamw", training=options["mode"] == "Training")
        recorder.do_not_count_as_saved([*job.parameters, *job.buffers, *job.inputs])
        stack.enter_context(caught(recorder, casts))
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(recorder.save, lambda tensor: tensor))
        stack.enter_context(recorder)
        job.step()
    return _document(job, recorder, options)


class _Job:
    """One step, of what a user's callable returned.

    `(model, inputs)` or `(model, inputs, loss)`: inputs is a tensor, a tuple (by position) or a dict (by name); `loss`
    maps the model's output to a scalar; else it is the output's `loss`, else the sum of its floating-point tensors.
    A model that cannot be built on the meta device may be built under `torch.device("cpu")`: it is moved.
    `{"modules", "inputs", "step"}`: the modules that have the parameters, and a function that takes the inputs and does
    all that a step does, backward passes and optimizers included.
    """

    def __init__(self, built: Any, *, optimizer: str, training: bool) -> None:
        if isinstance(built, dict) and {"modules", "inputs", "step"} <= set(built):
            self._modules, self._arguments, run = list(built["modules"]), built["inputs"], built["step"]
            _require_meta(self._modules)
        elif isinstance(built, tuple) and len(built) in (2, 3) and isinstance(built[0], torch.nn.Module):
            model, self._arguments, loss = (*built, _default_loss)[:3]
            self._modules = [model.to("meta").train(training)]
            run = _training(model, loss, _optimizer(optimizer, model)) if training else model
        else:
            raise ExtractionError("result", "the callable", reason=f"is {type(built).__name__}", remedy=_CONTRACT)
        self._run, self._training = run, training
        self._arguments = _on_meta(self._arguments)
        self.inputs = list(tensors_in([self._arguments]))
        self.buffers = [buffer for module in self._modules for buffer in module.buffers()]

    @property
    def parameters(self) -> list[Tensor]:
        """Each once, however often it is shared."""
        return list({id(p): p for module in self._modules for p in module.parameters()}.values())

    def step(self) -> None:
        """Run it."""
        with torch.set_grad_enabled(self._training):
            if isinstance(self._arguments, dict):
                self._run(**self._arguments)
            elif isinstance(self._arguments, (tuple, list)):
                self._run(*self._arguments)
            else:
                self._run(self._arguments)


def _document(job: _Job, recorder: Recorder, options: Row) -> Row:
    return {
        "v": 1,
        "name": options["name"],
        "framework": "torch " + torch.__version__.split("+")[0],
        "mode": options["mode"],
        "batchSize": options["batchSize"],
        "precision": options["precision"],
        "optimizer": recorder.optimizer,
        "compiled": bool(options.get("compiled")),
        "parameters": sum(parameter.numel() for parameter in job.parameters),
        "parameterBytes": bytes_of(job.parameters),
        "savedActivationBytes": recorder.saved_peak_bytes,
        "peakActivationBytes": recorder.alive_peak_bytes,
        "channelsLast": recorder.channels_last,
        "inputBytesPerStep": bytes_of(job.inputs),
        "criticalPathOperators": recorder.longest,
        "host": options.get("host") or {},
        "inference": options.get("inference"),
        "operators": recorder.rows(),
        "coverage": recorder.coverage(),
    }


def _require_hooks() -> None:
    missing = [name for name in _HOOKS if not hasattr(torch._C, name)]
    if missing:
        raise ExtractionError(
            "torch " + torch.__version__,
            "this installation",
            reason="lacks torch._C." + ", torch._C.".join(missing),
            remedy="use a release from 2.1 to 2.15 to extract; the kernels found do not depend on which",
        )


@contextlib.contextmanager
def _module_of_meta() -> Iterator[None]:
    """Checkpointing asks for the module of the inputs' device, as `torch.cuda`; older releases have none for meta."""
    try:
        torch.utils.checkpoint._get_device_module("meta")
    except AttributeError:
        torch.meta = types.SimpleNamespace()
    try:
        yield
    finally:
        vars(torch).pop("meta", None)


def _require_meta(modules: list[torch.nn.Module]) -> None:
    devices = {parameter.device.type for module in modules for parameter in module.parameters()} - {"meta"}
    if devices:
        remedy = "build them without naming a device: the meta device is the default here"
        raise ExtractionError("modules", "the callable", reason=f"are on {sorted(devices)}", remedy=remedy)


def _on_meta(value: Any) -> Any:
    if isinstance(value, Tensor) and value.layout == torch.sparse_coo:  # which .to() would empty
        return torch.sparse_coo_tensor(value._indices().to("meta"), value._values().to("meta"), value.shape)
    if isinstance(value, Tensor) and _is_sparse([value]):
        parts = [part.to("meta") for part in _parts(value)]
        return torch.sparse_compressed_tensor(*parts, value.shape, layout=value.layout, device="meta")
    if isinstance(value, Tensor):
        return value.to("meta")
    if isinstance(value, (list, tuple)):
        return [_on_meta(item) for item in value]
    return {key: _on_meta(item) for key, item in value.items()} if isinstance(value, dict) else value


def _training(model: torch.nn.Module, loss: Callable[[Any], Any], optimizer: Optimizer) -> Any:
    def run(*args: Any, **kwargs: Any) -> None:
        loss(model(*args, **kwargs)).backward()
        optimizer.step()

    return run


def _default_loss(output: Any) -> Any:
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if loss is not None:
        return loss
    return sum(tensor.float().sum() for tensor in tensors_in([output]) if tensor.is_floating_point())


def _optimizer(text: str, model: torch.nn.Module) -> Optimizer:
    name, _, options = text.partition(":")
    known = {key.lower(): value for key, value in vars(torch.optim).items() if isinstance(value, type)}
    remedy = "name a class of torch.optim with its options, as sgd:momentum=0.9"
    if name.lower() not in known:
        raise ExtractionError(text, "the optimizer", reason="torch.optim has none of this name", remedy=remedy)
    try:
        settings = {key: float(value) for key, value in (pair.split("=") for pair in options.split(",") if pair)}
        result: Optimizer = known[name.lower()](model.parameters(), **{"lr": 1e-3, **settings})
    except (ValueError, TypeError) as error:
        raise ExtractionError(text, "the optimizer", reason=repr(error), remedy=remedy) from error
    return result


@contextlib.contextmanager
def _explained(recorder: Recorder) -> Iterator[None]:
    """Whatever fails in the user's code is named with its place: the innermost frame outside of torch."""
    try:
        yield
    except ExtractionError:
        raise
    except Exception as error:
        skipped = (str(Path(torch.__file__).parent), str(Path(__file__)), str(Path(contextlib.__file__)), "<frozen")
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(skipped)]
        place = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "the step"
        text = str(error).strip()
        operator = "aten::_local_scalar_dense" if "item()" in text else recorder.last
        reason = f"{type(error).__name__}: {text}".splitlines()[0][:256]
        raise ExtractionError(operator, place, reason=reason, remedy=_remedy(text, frames, recorder)) from error


def _remedy(text: str, frames: list[Any], recorder: Recorder) -> str:
    if "Could not run" in text and "'Meta' backend" in text:
        return "this release of torch has no shape function for it: extract with a newer release"
    if "cuda" in text.lower() or "nvidia" in text.lower():
        return "name no device: tensors are made on the meta device by default"
    if "meta" not in text.lower() and "data-dependent" not in text.lower():
        return "let it run on the CPU first; what works there must work without data, too"
    if not recorder.has_begun:
        return "the model computes with tensors while it is built: build it under torch.device('cpu')"
    key = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "backward"
    return (
        "tensors have no values here: decide by shapes or arguments, not by what a tensor holds, "
        f"or declare an example of the value, or of how many rows there are: --example {key}=VALUE"
    )


# ---- The command line of this file, for images without Cotenant ----------------------------------------------------


def main() -> int:
    """Print a graph document; 1: the job cannot be extracted."""
    arguments = _parser().parse_args()
    options = {
        "name": arguments.name or arguments.target.rpartition(":")[2],
        "batchSize": arguments.batch_size,
        "mode": arguments.mode,
        "precision": arguments.precision,
        "optimizer": arguments.optimizer,
        "compiled": arguments.compile,
        "examples": dict(map(pair, arguments.example)),
    }
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the user's code prints is no part of the document
            document = extract(_build(arguments), options)
    except ExtractionError as error:
        print(f"extractor: {error}", file=sys.stderr)
        return 1
    print(json.dumps(document, separators=(",", ":"), sort_keys=True))
    for name, count in document["coverage"]["unknown"].items():
        print(f"extractor: {name} is unknown, {count} times: counted by its bytes only", file=sys.stderr)
    return 0


def pair(text: str) -> tuple[str, Any]:
    """`KEY=VALUE`; the value is a Python literal, else text."""
    key, _, value = text.partition("=")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="extractor", description="list what one step of a PyTorch model computes")
    parser.add_argument("target", metavar="MODULE:CALLABLE", help="what builds the job: " + _CONTRACT)
    parser.add_argument("--arg", action="append", default=[], metavar="KEY=VALUE", help="an argument of the callable")
    parser.add_argument("--batch-size", type=int, required=True, metavar="N", help="samples of one step")
    parser.add_argument("--mode", choices=("Training", "Inference"), default="Training")
    parser.add_argument("--precision", choices=("fp32", "tf32", "fp16", "bf16"), default="fp32")
    parser.add_argument("--optimizer", metavar="NAME", help="of torch.optim, as sgd:momentum=0.9; default: adamw")
    parser.add_argument("--compile", action="store_true", help="fuse as torch.compile would")
    parser.add_argument(
        "--example", action="append", default=[], metavar="PLACE=VALUE", help="what a tensor would hold"
    )
    parser.add_argument("--name", help="name of the graph; default: the callable's")
    return parser


def _build(arguments: argparse.Namespace) -> Callable[[], Any]:
    sys.path.insert(0, str(Path.cwd()))
    module, _, attribute = arguments.target.partition(":")
    given = dict(map(pair, arguments.arg))
    try:
        function: Any = functools.reduce(getattr, attribute.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "must be MODULE:CALLABLE, importable from the current folder"
        raise ExtractionError(arguments.target, "the command line", reason=str(error), remedy=remedy) from error
    code = getattr(function, "__code__", None)
    if code is None or "batch_size" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        given.setdefault("batch_size", arguments.batch_size)
    return functools.partial(function, **given)


if __name__ == "__main__":
    sys.exit(main())
