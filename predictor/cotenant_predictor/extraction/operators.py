"""What is known of ATen operators: class, FLOPs, kernels. Works on shapes; imports no torch.

One multiply-add is 2 FLOPs. An operator that fits no class is unknown: the caller counts and names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

_CLASSES = (
    ("conv", r"(_?convolution|conv_tbc)(_backward)?"),
    ("matmul", r"mm|addmm|bmm|baddbmm|addbmm|mv|addmv|dot|vdot|_int_mm|_scaled_mm"),
    ("norm", r"\w*(batch|layer|group|rms|weight)_norm\w*"),
    ("embedding", r"_?embedding\w*"),
    ("pool", r"\w*(max|avg)_pool\w*|upsample_\w+|grid_sampler\w*"),
    ("reduction", r"_(log_|safe_)?softmax\w*|nll_loss\w*|_?ctc_loss\w*|_cdist\w*|mse_loss|binary_cross_entropy"),
    ("reduction", r"sum|mean|var|var_mean|std|std_mean|a?max|a?min|argmax|argmin|prod|norm|linalg_vector_norm"),
    ("reduction", r"logsumexp|cumsum|cumprod|any|all|topk|sort|bincount|equal"),
    ("elementwise", r"native_dropout\w*|bernoulli|normal|uniform|exponential|random|rand\w*|multinomial|tri[lu]"),
    ("elementwise", r"\w+_loss(_backward)?|\w+_with_logits|binary_cross_entropy_backward|_?prelu\w*|glu\w*|where"),
    ("elementwise", r"masked_fill|nan_to_num|rrelu_with_noise\w*|_foreach_\w+|hard(tanh|swish|sigmoid)(_backward)?"),
    ("elementwise", r"(leaky_relu|elu|gelu|silu|mish|softplus|softshrink|hardshrink)_backward"),
    ("copy", r"clone|copy|_to_copy|cat|stack|fill|zero|zeros\w*|ones\w*|full\w*|new_(zeros|ones|full)|scalar_tensor"),
    (
        "copy",
        r"arange|linspace|eye|tri[lu]_indices|repeat|roll|flip|\w+_pad(\d?d|_nd)\w*|(slice|select|unfold|diagonal)_backward",
    ),
    ("copy", r"(slice|select)_scatter|im2col|col2im|pixel_(un)?shuffle|channel_shuffle|split_with_sizes_copy"),
    ("sparse", r"index|_?index_(put|put_impl|add|select|copy|fill)|gather\w*|scatter\w*|take|one_hot"),
)
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _CLASSES)

_WITHOUT_KERNEL = re.compile(
    r"(new_)?empty(_like|_strided|_permuted)?|_unsafe_view|lift_fresh|resize|set|unsafe_split|as_strided"
)
_WRITE_ONLY = re.compile(r"(copy|fill|zero|bernoulli|normal|uniform|exponential|random)_")
_TWICE = re.compile(r"(native_|cudnn_)?(batch|group)_norm(_backward)?|_native_batch_norm_legit|_batch_norm_with_update")
_GATHERING = re.compile(r"embedding|_embedding_bag\w*|index|index_select|gather|nll_loss2?d?_forward")

_KERNELS = {
    "embedding_dense_backward": 4,
    "native_layer_norm_backward": 2,
    "native_group_norm": 3,
    "native_group_norm_backward": 4,
    "index_put": 3,
    "_index_put_impl": 3,
    "sort": 4,
    "topk": 2,
}
_FLOPS_PER_ELEMENT = {"elementwise": 1, "norm": 6, "reduction": 2, "pool": 1}


def class_of(base: str) -> str | None:
    """The class of `aten::<base>`; None where nothing is known. In-place variants count as the operator itself."""
    plain = base.rstrip("_")
    return next((name for name, pattern in _PATTERNS if pattern.fullmatch(plain)), None)


def launches_nothing(base: str) -> bool:
    """Whether the operator only allocates or renames."""
    return _WITHOUT_KERNEL.fullmatch(base.rstrip("_")) is not None


def reads_only_what_it_writes(base: str) -> bool:
    """Whether the operator picks from its first input instead of reading it all."""
    return _GATHERING.fullmatch(base) is not None


def reads_twice(base: str) -> bool:
    """Whether statistics over the whole batch or group must be there before the operator's main pass."""
    return _TWICE.fullmatch(base) is not None


def ignores_first_input(base: str) -> bool:
    """Whether the operator overwrites its first input without reading it."""
    return _WRITE_ONLY.fullmatch(base) is not None


def kernels_of(base: str) -> int:
    """Kernels of one occurrence where it is not one of the classes with a formula."""
    return _KERNELS.get(base.rstrip("_"), 1)


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


def attention_row(dims: dict[str, int], *, dtype: str, products: int) -> dict[str, Any]:
    """Fused attention: 2 products forward, 5 backward, where the scores are computed again."""
    return {
        "class": "attention",
        "name": "aten::scaled_dot_product_attention",
        "dtype": dtype,
        "kernels": 1 if products == 2 else 3,
        "flops": products * 2 * math.prod(dims.values()),
        "dims": dims,
    }


def recurrent_rows(spec: dict[str, Any], *, backward: bool) -> list[dict[str, Any]]:
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
