"""Steps of servers, and what a load needs, against published servers."""

import dataclasses
from typing import Final

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.serving import command, families, memory, sizing, speed
from predictor.serving_logs import LLAMA_8B

DEVICES: Final = devices.load()
H100: Final = next(one for name, one in DEVICES.items() if name == "NVIDIA-H100-80GB-HBM3")
A100: Final = next(one for name, one in DEVICES.items() if name == "NVIDIA-A100-SXM4-40GB")
SERVER: Final = command.read(["vllm", "serve", "m", "--max-model-len", "32768"])
LLAMA: Final = families.read(LLAMA_8B, source="llama")
QWEN: Final = families.read(
    LLAMA_8B
    | {
        "model_type": "qwen3",
        "num_hidden_layers": 36,
        "head_dim": 128,
        "intermediate_size": 12288,
        "vocab_size": 151936,
    },
    source="qwen",
)
TENSORRT_LLM: Final = (
    (128, 128, 28312),
    (128, 2048, 22714),
    (128, 4096, 14325),
    (500, 2000, 17660),
    (1000, 1000, 15220),
    (1000, 2000, 13899),
    (2048, 128, 3450),
    (2048, 2048, 9305),
    (5000, 500, 3459),
    (20000, 2000, 1351),
)
"""Tokens of prompt and answer, and tokens of answers a second of Llama 3.1 8B in fp8 on one H100 80GB, at any rate:
docs/source/performance/perf-overview.md of NVIDIA/TensorRT-LLM, 00f37686."""


def test_a_token_takes_as_long_as_published() -> None:
    """Qwen3-8B, 4 at once, on an H100: 7.38 ms by vLLM 0.11, 7.19 by SGLang 0.5.3 (GPUStack's performance lab).
    Llama-3.1-8B, one at once, on an A100 40GB: about 75 tokens a second by vLLM 0.23 (J. Musgrave).
    """
    four = speed.Steps(model=QWEN, server=SERVER, device=H100).decode(4, tokens=450)
    alone = speed.Steps(model=LLAMA, server=SERVER, device=A100).decode(1, tokens=1100)
    assert four == pytest.approx(7.3e-3, rel=0.05)
    assert 1 / alone == pytest.approx(75, rel=0.06)


@pytest.mark.parametrize(("prompt", "answer", "published"), TENSORRT_LLM)
def test_throughput_is_at_most_a_third_above_what_nvidia_published(prompt: int, answer: int, published: int) -> None:
    """Another program, that was tuned: an upper bound of what a server reaches, so that it is not sized too small."""
    server = dataclasses.replace(SERVER, quantization="fp8", kv_dtype="fp8")
    steps = speed.Steps(model=LLAMA, server=server, device=H100)
    needed = memory.needed(LLAMA, server, gpu_memory_mib=H100.memory_mib)
    room = 0.9 * H100.memory_mib * memory.MIB - needed.fixed
    sequences = min(2048, room / (needed.kv_every * (prompt + answer // 2)))
    step = steps.decode(sequences, tokens=prompt + answer // 2)
    found = answer / (steps.prefill(prompt) + answer * step / sequences)
    assert -0.05 <= found / published - 1 <= 0.33


def load(**changes: float) -> speed.Load:
    asked = {"requests": 2.0, "prompt": 512, "answer": 256, "token_milliseconds": 50.0} | changes
    return speed.load_of(
        requests=asked["requests"],
        prompt=int(asked["prompt"]),
        answer=int(asked["answer"]),
        token_milliseconds=asked["token_milliseconds"],
    )


def test_more_requests_and_shorter_waits_need_more_of_the_gpu() -> None:
    steps = speed.Steps(model=LLAMA, server=SERVER, device=H100)
    shares = [steps.share(one) for one in (load(), load(requests=20), load(requests=20, token_milliseconds=20))]
    assert 0 < shares[0] < shares[1] < shares[2]


def test_few_requests_need_the_gpu_for_a_part_of_the_time() -> None:
    steps = speed.Steps(model=LLAMA, server=SERVER, device=H100)
    assert steps.share(load(requests=0.01)) < 0.05


@pytest.mark.parametrize("option", ["requests", "prompt", "answer", "token_milliseconds"])
def test_a_load_without_anything_is_refused(option: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="must be above 0"):
        load(**{option: 0})


def test_a_server_is_booked_for_what_chance_adds_to_its_load() -> None:
    found = sizing.size(LLAMA, SERVER, H100, load=load(requests=10))
    mean = 10 * 256 * 0.05
    assert found.sequences is not None
    assert mean < found.sequences <= 2 * mean
    assert found.share is not None
    assert found.fits


def test_one_of_the_longest_sequences_has_room_in_any_case() -> None:
    found = sizing.size(LLAMA, SERVER, H100)
    assert found.kv_bytes > 32768 * 131072
    assert (found.share, found.sequences) == (None, None)


def test_a_limit_of_sequences_asks_for_no_room_for_as_many_of_the_longest() -> None:
    most = dataclasses.replace(SERVER, sequences=256)
    assert sizing.size(LLAMA, most, H100).kv_bytes == sizing.size(LLAMA, SERVER, H100).kv_bytes


def test_the_cache_that_a_command_line_asks_for_is_booked() -> None:
    asked = dataclasses.replace(SERVER, kv_bytes=8 * 2**30)
    assert sizing.size(LLAMA, asked, H100).options["--kv-cache-memory-bytes"] == str(8 * 2**30)


def test_options_keep_a_server_within_what_is_booked() -> None:
    found = sizing.size(LLAMA, SERVER, H100, sequences=8)
    free = (found.booked_mib - found.context_mib) * memory.MIB
    assert float(found.options["--gpu-memory-utilization"]) * found.card_mib * memory.MIB <= free
    assert int(found.options["--kv-cache-memory-bytes"]) + found.needed.fixed <= free
    sglang = command.read(["sglang", "serve", "--model-path", "m", "--context-length", "8192"])
    other = sizing.size(LLAMA, sglang, H100, sequences=8)
    free = (other.booked_mib - other.context_mib) * memory.MIB
    static = float(other.options["--mem-fraction-static"]) * (free - other.needed.libraries)
    assert 1.03 * other.needed.weights + other.kv_bytes <= static
    assert static + other.needed.activations + other.needed.graphs <= free
    assert int(other.options["--max-total-tokens"]) >= 8 * 8192


def test_sglang_keeps_what_is_behind_a_window() -> None:
    config = LLAMA_8B | {"model_type": "gemma2", "sliding_window": 1024, "head_dim": 128}
    sglang = command.read(["sglang", "serve", "--model-path", "m", "--context-length", "32768"])
    found = sizing.size(families.read(config, source="gemma"), sglang, H100)
    assert int(found.options["--max-total-tokens"]) >= 32768


def test_a_gpu_without_kernels_for_the_server_or_its_type_does_not_fit() -> None:
    t4, k80 = (DEVICES[GPUModel(name)] for name in ("Tesla-T4", "Tesla-K80"))
    short = dataclasses.replace(SERVER, context=2048)
    small = families.read(LLAMA_8B | {"num_hidden_layers": 4}, source="small")
    half = dataclasses.replace(short, dtype="half")
    assert [sizing.size(small, short, t4).fits, sizing.size(small, half, t4).fits] == [False, True]
    assert not sizing.size(small, half, k80).fits


def test_a_gpu_that_is_too_small_or_too_slow_does_not_fit() -> None:
    t4 = DEVICES[next(name for name in DEVICES if name == "Tesla-T4")]
    assert not sizing.size(LLAMA, SERVER, t4).fits
    assert sizing.size(LLAMA, SERVER, t4).options == {}
    assert not sizing.size(LLAMA, SERVER, A100, load=load(requests=1000)).fits
