"""What to book for a server on a GPU model, and the options by which it stays within that."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant_api import errors
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import coefficients
from cotenant_predictor.serving import memory, speed
from cotenant_predictor.serving.architecture import LanguageModel
from cotenant_predictor.serving.command import Program, Server
from cotenant_predictor.serving.memory import BLOCK_TOKENS, MIB, Memory

STEP_MIB: Final = 256
"""Bookings are multiples of it."""
_SPARE_ACTIVATIONS: Final = 0.12
_SPARE_GRAPHS: Final = 0.9
_SPARE_LIBRARIES_MIB: Final = 220
"""By so much parts were larger than is computed, at most (`tests/predictor/serving_logs.py`)."""

_LOADED: Final = 1.03
"""Weights as SGLang finds them, over what is computed, at most."""
_TABLE_BYTES: Final = 4
"""SGLang keeps the place of each token of each request."""
_ADMITTED: Final = "0.01"
_LEAST: Final = 7.0
_LEAST_FOR_BF16: Final = 8.0
"""Compute capability from which on the servers have kernels."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a server needs of one GPU model.

    Attributes:
        sequences: in progress at once, at most; None: as the server has it by default.
        context: tokens of a sequence, at most.
        kv_bytes: of the KV cache, on each GPU.
        needed: the other parts.
        context_mib: what the process takes by using the GPU at all.
        booked_mib: memory to book on each GPU.
        card_mib: memory of the GPU.
        share: percent of the GPU's time, rounded up; None: nothing was said of the load. Above 100: it is too much.
        length: tokens of a sequence for which the KV cache has room.
        options: what the command line needs so that the server stays within what is booked; empty: it does not fit.
        runs: whether the server runs on such a GPU at all.
    """

    device: Device
    sequences: int | None
    context: int
    length: int
    kv_bytes: int
    needed: Memory
    context_mib: int
    booked_mib: int
    card_mib: int
    share: int | None
    options: Mapping[str, str]
    runs: bool

    @property
    def fits(self) -> bool:
        """Whether the GPU has as much memory and time, and what the server needs to run at all."""
        return self.runs and self.booked_mib <= self.card_mib and (self.share is None or self.share <= 100)

    @property
    def part_percent(self) -> int:
        """What part of the GPU the server needs: of its memory, or of its time if that is more."""
        return max(math.ceil(100 * self.booked_mib / self.card_mib), self.share or 0)


def size(
    model: LanguageModel,
    server: Server,
    device: Device,
    *,
    load: speed.Load | None = None,
    sequences: int | None = None,
) -> Size:
    """Size a server.

    Args:
        model: what it serves.
        server: how it is started.
        device: on which GPU model.
        load: what is asked of it.
        sequences: how many are in progress at once; by default what the load needs, with three standard deviations
            more, and no more than the command allows. Where nothing is said the cache has room for one of the longest.

    Raises:
        InvalidInputError: the server cannot be started so.
    """
    context = memory.context_of(model, server)
    if load is not None and load.prompt + load.answer > context:
        remedy = f"prompt and answer are longer than a sequence may be: {context} tokens"
        raise errors.InvalidInputError("--answer-tokens", load.answer, remedy)
    is_a100 = device.compute_capability == "8.0"
    most = sequences or _of_load(server, load)
    default, batched = memory.step_of(server, gpu_memory_mib=device.memory_mib, is_a100=is_a100)
    limit = server.sequences or most or default
    started = dataclasses.replace(server, sequences=limit, batched_tokens=batched)
    needed = memory.needed(model, started, gpu_memory_mib=device.memory_mib, is_a100=is_a100)
    length = context if load is None else load.prompt + load.answer
    kv = _kv(server, needed, length=length, context=context, sequences=most or 1)
    formula = coefficients.FORMULA_1
    own = math.ceil(formula.context_mib + formula.context_mib_per_sm * device.sm_count)
    table = 0 if server.program is Program.VLLM else _TABLE_BYTES * limit * (context + BLOCK_TOKENS)
    loaded = max(needed.fixed + kv + spare(needed) + table, memory.weights_loading(model, started))
    booked = math.ceil((loaded / MIB + own) / STEP_MIB) * STEP_MIB
    steps = speed.Steps(model=model, server=started, device=device)
    found = Size(
        device=device,
        sequences=most,
        context=context,
        length=length,
        kv_bytes=kv,
        needed=needed,
        context_mib=own,
        booked_mib=booked,
        card_mib=device.memory_mib,
        share=None if load is None else max(1, math.ceil(100 * steps.share(load))),
        options={},
        runs=_runs(model, started, device),
    )
    return dataclasses.replace(found, options=_options(found, started)) if found.fits else found


def _kv(server: Server, needed: Memory, *, length: int, context: int, sequences: int) -> int:
    """Bytes of the KV cache. One of the longest sequences must have room: else neither server starts."""
    if server.kv_bytes is not None:
        return server.kv_bytes
    if server.program is Program.VLLM:
        return max(needed.kv(length, sequences=sequences), needed.kv(context))
    # SGLang keeps what is behind a window, too, in a part of its cache that follows from another option.
    return needed.kv_every * (max(length * sequences, context) + memory.LARGEST_BLOCK_TOKENS)


def _runs(model: LanguageModel, server: Server, device: Device) -> bool:
    """Return whether the GPU has what the server's kernels need, and computes in the type."""
    least = _LEAST_FOR_BF16 if memory.dtype_of(model, server) == "bf16" else _LEAST
    return float(device.compute_capability) >= least


def spare(needed: Memory) -> int:
    """Return the bytes that are booked beside the computed parts, as each was seen to be larger."""
    more = _SPARE_ACTIVATIONS * needed.activations + _SPARE_GRAPHS * needed.graphs
    return round(more + _SPARE_LIBRARIES_MIB * MIB)


def _of_load(server: Server, load: speed.Load | None) -> int | None:
    """Sequences in progress: what the load needs, with three standard deviations more; None: nothing was said."""
    if load is None:
        return None
    mean = load.requests * load.answer * load.token_seconds
    asked = max(1, math.ceil(mean + 3 * math.sqrt(mean)))
    return min(asked, server.sequences) if server.sequences else asked


def _options(found: Size, started: Server) -> dict[str, str]:
    """Options of the server's program. Under a limit of MPS it sees less free memory, and the whole card's total."""
    free_mib = found.booked_mib - found.context_mib - found.needed.libraries / MIB
    kv = found.kv_bytes
    step = {"--max-num-batched-tokens": str(started.batched_tokens)}
    if started.program is Program.SGLANG:
        # A fraction of what is free before the weights are loaded; the other option bounds the cache.
        held = (_LOADED * found.needed.weights + kv + spare(found.needed) / 2) / MIB
        return {
            "--mem-fraction-static": f"{min(0.97, math.ceil(1000 * held / free_mib) / 1000):.3f}",
            "--max-total-tokens": str(kv // max(found.needed.kv_every, 1)),
            "--max-running-requests": str(started.sequences),
            "--context-length": str(found.context),
            "--chunked-prefill-size": str(started.batched_tokens),
        }
    if kv == 0:
        fraction = max(1, math.floor(1000 * free_mib / found.card_mib)) / 1000
        return {"--gpu-memory-utilization": f"{fraction:.3f}", "--max-num-seqs": str(started.sequences)} | step
    return {
        # The server only looks whether so much of the card is free: its cache is as large as the next option says.
        "--gpu-memory-utilization": _ADMITTED,
        "--kv-cache-memory-bytes": str(kv),
        "--max-num-seqs": str(started.sequences),
        "--max-model-len": str(found.context),
    } | step
