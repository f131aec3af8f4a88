"""How long a server's steps take on a GPU, and what part of the GPU's time a rate of requests needs.

    decode    of b sequences: all weights are read once and each sequence's cache, 2 FLOPs for each weight and sequence
    prefill   2 FLOPs for each weight and token of a prompt

Whichever of bytes and FLOPs takes longer counts, beside a fixed time per layer. A server that answers r requests a
second of a tokens each, with at most s seconds a token, has r x a x s sequences in progress on average, and needs

    share = r x prefill(prompt) + decode(r x a x s) / s

of the GPU's time: with less it falls behind, by continuous batching with more it answers sooner. The peaks are the GPU
maker's. What is reached of them is fitted to two published servers; `test_serving_speed.py` holds it against others.
"""

import math
from dataclasses import dataclass
from typing import Final

from cotenant_api import errors
from cotenant_predictor.devices import Device
from cotenant_predictor.serving import memory
from cotenant_predictor.serving.architecture import LanguageModel
from cotenant_predictor.serving.command import Server

_BANDWIDTH: Final = 0.80
"""Share of the bandwidth that reading weights and caches reaches."""
_ARITHMETIC: Final = 0.54
"""Share of the peak that products of matrices reach, as of `jobs.coefficients`."""
_LAYER_SECONDS: Final = 30e-6
"""What a layer takes however little it does, in a CUDA graph."""
_EAGER_LAYER_SECONDS: Final = 250e-6
"""The same where each kernel is launched by itself."""


_MOST: Final = 10**6


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked of a server.

    Attributes:
        requests: a second.
        prompt: tokens of a request.
        answer: tokens that are given back.
        token_seconds: how long a token of an answer may take.
    """

    requests: float
    prompt: int
    answer: int
    token_seconds: float


@dataclass(frozen=True, kw_only=True)
class Steps:
    """A server's steps on one GPU model, alone on its GPUs."""

    model: LanguageModel
    server: Server
    device: Device

    def decode(self, sequences: float, *, tokens: int) -> float:
        """Seconds of a step that gives each of so many sequences, of so many tokens each, another one."""
        cache = memory.needed(self.model, self.server, gpu_memory_mib=self.device.memory_mib).kv_every * tokens
        read = self._read_weights(sequences) + sequences * cache
        return max(read / self._bandwidth, self._arithmetic_seconds(sequences)) + self._fixed

    def prefill(self, tokens: int) -> float:
        """Seconds for a prompt of so many tokens, among others in full steps."""
        return self._arithmetic_seconds(tokens)

    def share(self, load: Load) -> float:
        """Return the part of the GPU's time that a load needs; above 1: it cannot be served so."""
        sequences = self.sequences(load)
        step = self.decode(sequences, tokens=load.prompt + load.answer // 2)
        return load.requests * self.prefill(load.prompt) + step / load.token_seconds * min(1.0, sequences)

    def sequences(self, load: Load) -> float:
        """Sequences in progress, on average, where each token takes as long as it may."""
        return load.requests * load.answer * load.token_seconds

    def _read_weights(self, sequences: float) -> float:
        """Bytes; of experts, those that so many tokens choose."""
        bytes_all = memory.weights(self.model, self.server)
        every = sum(layer.experts for layer in self.model.layers)
        if every == 0:
            return bytes_all
        chosen = sum(
            layer.experts * _reached(layer.used / max(layer.experts, 1), sequences) for layer in self.model.layers
        )
        linear = sum(layer.linear for layer in self.model.layers)
        return bytes_all * (linear - every + chosen) / linear

    def _arithmetic_seconds(self, tokens: float) -> float:
        stored = memory.quantization_of(self.model, self.server)
        dtype = "fp8" if stored is not None and stored.bits == 8 else memory.dtype_of(self.model, self.server)
        gpus = self.server.tensor_parallel
        return 2 * self.model.used_parameters * tokens / gpus / (_ARITHMETIC * self.device.peak_flops(dtype))

    @property
    def _bandwidth(self) -> float:
        return _BANDWIDTH * 1e9 * self.device.memory_gigabytes_per_second

    @property
    def _fixed(self) -> float:
        return len(self.model.layers) * (_EAGER_LAYER_SECONDS if self.server.eager else _LAYER_SECONDS)


def _reached(part: float, tokens: float) -> float:
    """Part of the experts that any of so many tokens chooses, each that part of them at random."""
    return 1.0 if part >= 1 else 1 - math.pow(1 - part, max(tokens, 1.0))


def load_of(*, requests: float, prompt: int, answer: int, token_milliseconds: float) -> Load:
    """Return a load, checked.

    Raises:
        InvalidInputError: a value is not above 0.
    """
    values = {
        "--requests-per-second": requests,
        "--prompt-tokens": prompt,
        "--answer-tokens": answer,
        "--milliseconds-per-token": token_milliseconds,
    }
    for option, value in values.items():
        if not 0 < value <= _MOST:
            raise errors.InvalidInputError(option, value, f"must be above 0 and at most {_MOST}")
    return Load(requests=requests, prompt=prompt, answer=answer, token_seconds=token_milliseconds / 1000)
