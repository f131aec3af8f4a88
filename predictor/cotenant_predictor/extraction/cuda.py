"""Where CUDA would run other operators than the meta device does: fused layers, mixed precision, optimizer sweeps.

Operators are caught above autograd, at the dispatch key of CPU autocast: its own kernels leave meta tensors alone.
"""

from __future__ import annotations

import collections
import contextlib
import math
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from . import operators
from .recorder import Recorder, Row, bytes_of, tensors_in, type_of

_KEY = torch._C.DispatchKey.AutocastCPU
_LOWER = (torch.bfloat16, torch.float16)

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

_TENSORS_PER_KERNEL = 36
_ELEMENTS_PER_KERNEL = 320 * 65536
"""What one launch of PyTorch's multi-tensor kernels takes at most, with four lists of tensors."""


@contextlib.contextmanager
def caught(recorder: Recorder, casts: Casts) -> Iterator[None]:
    """While open, attention, dropout and recurrent layers are one operator each, and `casts` apply."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # replacing CPU autocast's kernels is the purpose
        for name, body in _bodies(recorder, casts).items():
            library.impl(name, _behind_the_key(body), "AutocastCPU")
    torch._C._dispatch_tls_set_dispatch_key_excluded(_KEY, False)
    torch._C._dispatch_tls_set_dispatch_key_included(_KEY, True)
    try:
        yield
    finally:
        torch._C._dispatch_tls_set_dispatch_key_included(_KEY, False)
        torch._C._dispatch_tls_set_dispatch_key_excluded(_KEY, True)
        library._destroy()


class Casts:
    """What torch.autocast does on CUDA; it knows no meta tensors. `lower` is None: nothing."""

    def __init__(self, lower: torch.dtype | None) -> None:
        self._lower = lower
        self._weights: dict[int, Tensor] = {}

    @property
    def names(self) -> dict[str, Callable[[Any], Any]]:
        """Operators by the cast that their arguments take."""
        if self._lower is None:
            return {}
        return {**dict.fromkeys(_CAST_DOWN.split(), self.down), **dict.fromkeys(_CAST_UP.split(), self.up)}

    def down(self, value: Any) -> Any:
        """Floating-point tensors in the lower precision; a weight is cast once per step, as autocast caches it."""
        if isinstance(value, (list, tuple)):
            return [self.down(item) for item in value]
        is_castable = isinstance(value, Tensor) and value.dtype in (torch.float32, *_LOWER)
        if self._lower is None or not is_castable or value.dtype == self._lower:
            return value
        if not (value.requires_grad and value.is_leaf):
            return value.to(self._lower)
        return (
            self._weights.setdefault(id(value), value.to(self._lower))
            if id(value) not in self._weights
            else (self._weights[id(value)])
        )

    def up(self, value: Any) -> Any:
        """Tensors of a lower precision as fp32."""
        return value.float() if isinstance(value, Tensor) and value.dtype in _LOWER else value

    def forget(self) -> None:
        """The weights have changed."""
        self._weights.clear()


@contextlib.contextmanager
def swept_optimizers(recorder: Recorder, casts: Casts) -> Iterator[None]:
    """Optimizers made meanwhile take one fused sweep for a step, instead of Python per parameter."""
    original = Optimizer.__init__

    def patched(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.step = types.MethodType(step, self)

    def step(self: Any, closure: Any = None) -> Any:
        loss = closure() if closure is not None else None
        _sweep(recorder, self)
        casts.forget()
        return loss

    Optimizer.__init__ = patched
    try:
        yield
    finally:
        Optimizer.__init__ = original


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
        return [operators.attention_row(self._dims, dtype=self._dtype, products=5 if backward else 2)]


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
        return operators.recurrent_rows(self._spec, backward=backward)


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

    def casting(operator: Any, cast: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: operator(*map(cast, args), **{k: cast(v) for k, v in kwargs.items()})

    bodies: dict[str, Callable[..., Any]] = {"dropout": dropout, "scaled_dot_product_attention": attention}
    bodies.update({name: recurrent(name) for name in _RECURRENT})
    for name, cast in casts.names.items():
        operator = _overload(name)
        if operator is not None:
            bodies[name] = casting(operator, cast)
    return bodies


def _behind_the_key(body: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_KEY)):
            return body(*args, **kwargs)

    return run


def _overload(name: str) -> Any:
    """The ATen operator; None where this release of torch has none of the name."""
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base, None), overload or "default", None)


def _with_bytes(row: Row, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Row:
    elements = sum(tensor.numel() for tensor in outputs)
    return {"bytesRead": bytes_of(inputs), "bytesWritten": bytes_of(outputs), "outputElements": elements, **row}


def _sweep(recorder: Recorder, optimizer: Optimizer) -> None:
    """One pass over parameters, gradients and state, as CUDA's multi-tensor kernels make it."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    gradients = [p.grad for p in parameters]
    weights, moved, elements = bytes_of(parameters), bytes_of(gradients), sum(p.numel() for p in parameters)
    state = int(weights * recorder.unrecorded(_state_per_parameter, optimizer))
    name = type(optimizer).__name__.lower()
    recorder.optimizer = recorder.optimizer or name
    kernels = max(math.ceil(len(parameters) / _TENSORS_PER_KERNEL), math.ceil(elements / _ELEMENTS_PER_KERNEL))
    row: Row = {"class": "elementwise", "name": "optimizer::" + name, "phase": "Optimizer"}
    row.update(dtype=type_of(parameters), kernels=kernels, flops=4 * elements, outputElements=elements)
    row.update(bytesRead=weights + moved + state, bytesWritten=weights + state)
    row["dims"] = {"tensors": len(parameters), "stateBytes": state, "gradientBytes": moved}
    recorder.add(row, gradients, parameters)


def _state_per_parameter(optimizer: Optimizer) -> float:
    """State elements per parameter element, found by one real step of a twin on one small CPU parameter."""
    example = torch.nn.Parameter(torch.zeros(256, 256, device="cpu"))
    example.grad = torch.zeros(256, 256, device="cpu")
    twin = object.__new__(type(optimizer))
    twin.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    settings = {**optimizer.param_groups[0], "params": [example], "foreach": False, "fused": False}
    twin.param_groups, twin.state = [{**settings, "capturable": False}], collections.defaultdict(dict)
    with torch.device("cpu"):
        type(optimizer).step(twin)
    kept = [tensor.numel() for tensor in tensors_in([dict(twin.state).get(example, {})]) if tensor.dim()]
    return float(sum(kept) / example.numel())
