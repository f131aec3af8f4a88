"""How much memory of each GPU a server takes, part by part.

    weights     linear layers as they are stored, the rest in the type that is computed in; each GPU of n its part
    KV cache    layers x values of a token x bytes; each GPU its heads, but all of a latent vector (MLA)
    forward     tokens of a step x (values inside of the widest layer, and around it) x bytes
    sampler     sequences x vocabulary x bytes of a logit and of its copies; with `forward` the larger counts
    graphs      grow with the number of layers
    context     of the GPU, as for any process

The constants are those of servers of vLLM 0.19 on H100 GPUs, whose logs are published: `serving_logs.py` of the tests
has them, with their addresses, and every part is held against them.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Final

from cotenant_api import errors, quantity
from cotenant_predictor.serving import architecture, command, quantization
from cotenant_predictor.serving.architecture import LanguageModel, Layer
from cotenant_predictor.serving.command import Server

MIB: Final = quantity.BYTES_PER_MIB
BLOCK_TOKENS: Final = 16
"""Tokens of a block of vLLM's KV cache."""
LARGEST_BLOCK_TOKENS: Final = 64
"""With some kinds of attention a block is as large."""
_BYTES: Final = {"fp32": 4, "fp16": 2, "bf16": 2}
_DTYPES: Final = {"half": "fp16", "float": "fp32", **architecture.TYPES}
_AROUND: Final = 4
"""Vectors of a token's width that are alive around a layer."""
_LOGIT_COPIES: Final = 13.4
"""Bytes of a logit beside itself: in fp32, sorted, as probabilities and their sums."""
_GRAPH_MIB: Final = 350.0
_GRAPH_MIB_PER_LAYER: Final = 20.0
_LIBRARY_MIB: Final = 260.0
_COLLECTIVES_MIB: Final = 2150.0
"""What NCCL and the libraries hold where GPUs work together."""
_LARGE_GPU_MIB: Final = 70 * 1024
"""From so much memory on vLLM takes more of a step, but for the A100."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes on each GPU.

    Attributes:
        weights: parameters.
        activations: the most that a step takes beside them.
        libraries: what CUDA's libraries take outside of PyTorch's allocator.
        graphs: CUDA graphs.
        kv_token: of a token in layers that look back at all of a sequence.
        kv_windows: of a token, and for how many tokens at most, in layers that look back so far.
        step_tokens: of a step, at most: so many more are kept in such layers while it is computed.
    """

    weights: int
    activations: int
    libraries: int
    graphs: int
    kv_token: int
    kv_windows: tuple[tuple[int, int], ...] = ()
    step_tokens: int = 0

    @property
    def fixed(self) -> int:
        """All but the KV cache and the context."""
        return self.weights + self.activations + self.libraries + self.graphs

    @property
    def kv_every(self) -> int:
        """Bytes of a token in all layers."""
        return self.kv_token + sum(each for each, _ in self.kv_windows)

    def kv(self, tokens: int, *, sequences: int = 1) -> int:
        """Bytes of vLLM's KV cache for so many sequences of so many tokens.

        One block more, which vLLM keeps empty; in layers with a window as much as a step adds to it.
        """
        windows = sum(each * _blocks(min(tokens, window - 1 + self.step_tokens)) for each, window in self.kv_windows)
        extra = LARGEST_BLOCK_TOKENS * (self.kv_every + sum(each for each, _ in self.kv_windows))
        return 0 if self.kv_every == 0 else sequences * (self.kv_token * _blocks(tokens) + windows) + extra

    def tokens(self, kv_bytes: int) -> int:
        """Tokens that a KV cache of so many bytes holds in whole blocks, with all of each in every layer."""
        return 0 if self.kv_every == 0 else kv_bytes // (BLOCK_TOKENS * self.kv_every) * BLOCK_TOKENS


def _blocks(tokens: int) -> int:
    return math.ceil(tokens / BLOCK_TOKENS) * BLOCK_TOKENS


def needed(model: LanguageModel, server: Server, *, gpu_memory_mib: int, is_a100: bool = False) -> Memory:
    """Return what a server takes of each of its GPUs.

    Args:
        model: what it serves.
        server: how it is started.
        gpu_memory_mib: memory of a GPU, by which the server chooses how much it does in a step.
        is_a100: whether it is one, of which it chooses as of smaller ones.

    Raises:
        InvalidInputError: the GPUs cannot share the model so.
    """
    gpus, layers = server.tensor_parallel, model.layers
    if model.query_heads % gpus:
        raise errors.InvalidInputError(
            "--tensor-parallel-size", gpus, f"must divide the model's {model.query_heads} heads of attention"
        )
    odd = next((one.kv_heads for one in layers if one.kv_heads and one.kv_heads % gpus and gpus % one.kv_heads), None)
    if odd is not None:
        remedy = f"must divide the model's {odd} heads of keys and values, or be a multiple of them"
        raise errors.InvalidInputError("--tensor-parallel-size", gpus, remedy)
    computed = dtype_of(model, server)
    bytes_each = _BYTES[computed]
    sequences, batched = step_of(server, gpu_memory_mib=gpu_memory_mib, is_a100=is_a100)
    forward = batched * bytes_each * (math.ceil(model.widest / gpus) + _AROUND * model.width)
    sampler = sequences * model.vocabulary * (bytes_each + _LOGIT_COPIES)
    kv_bytes = command.KV_TYPES[server.kv_dtype] or bytes_each
    kv = [(_kv_values(layer, gpus) * kv_bytes, layer.window) for layer in layers]
    windows: dict[int, int] = {}
    for each, window in kv:
        if window is not None:
            windows[window] = windows.get(window, 0) + each
    libraries = _LIBRARY_MIB if gpus == 1 else _COLLECTIVES_MIB
    graphs = 0.0 if server.eager else _GRAPH_MIB + _GRAPH_MIB_PER_LAYER * len(layers)
    return Memory(
        weights=max(0, weights(model, server) - round(server.offloaded_gib * 2**30)),
        activations=round(max(forward, sampler)),
        libraries=round(libraries * MIB),
        graphs=round(graphs * MIB),
        kv_token=sum(each for each, window in kv if window is None),
        kv_windows=tuple((each, window) for window, each in sorted(windows.items())),
        step_tokens=batched,
    )


def weights(model: LanguageModel, server: Server) -> int:
    """Bytes of the parameters on each GPU."""
    width = _BYTES[dtype_of(model, server)]
    stored = quantization_of(model, server)
    gpus = server.tensor_parallel
    total = 0.0
    for layer in model.layers:
        for amount, is_expert in ((layer.attention + layer.dense, False), (layer.experts, True)):
            shrinks = stored is not None and (is_expert or not stored.experts_only)
            total += amount / gpus * (stored.bits / 8 if stored is not None and shrinks else width)
        total += layer.other * width
    return round(total + ((model.embedding + model.head) / gpus + model.other) * width)


def weights_loading(model: LanguageModel, server: Server) -> int:
    """Bytes of the parameters on each GPU as the file has them, if the server shrinks them."""
    return weights(model, dataclasses.replace(server, quantization=None))


def dtype_of(model: LanguageModel, server: Server) -> str:
    """Return what the server computes in: half precision of a model in fp32, if it may choose."""
    if server.dtype != "auto":
        return _DTYPES[server.dtype]
    return "fp16" if model.dtype == "fp32" else model.dtype


def quantization_of(model: LanguageModel, server: Server) -> quantization.Quantization | None:
    """Return how linear layers are stored: as the model declares, else as the server is told."""
    if model.quantization is not None or server.quantization is None:
        return model.quantization
    method = server.quantization.partition("_")[0]
    if method not in quantization.NAMED:
        raise errors.InvalidInputError(
            "--quantization", server.quantization, "needs a model that is stored so: its config.json does not say so"
        )
    return quantization.NAMED[method]


def context_of(model: LanguageModel, server: Server) -> int:
    """Tokens of a sequence, at most; more than the model says of itself where somebody asks for it."""
    return server.context or model.context


def step_of(server: Server, *, gpu_memory_mib: int, is_a100: bool = False) -> tuple[int, int]:
    """Sequences in progress, and tokens of a step, at most; by default as the servers choose them."""
    large = gpu_memory_mib >= _LARGE_GPU_MIB and not is_a100
    sequences = server.sequences or (1024 if large else 256)
    return sequences, server.batched_tokens or (8192 if large else 2048)


def _kv_values(layer: Layer, gpus: int) -> int:
    if layer.kv_heads == 0:
        return layer.kv_values
    return layer.kv_values // layer.kv_heads * max(1, layer.kv_heads // gpus)
