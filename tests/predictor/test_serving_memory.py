"""Memory of servers, part by part, against what servers have logged."""

import dataclasses

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.serving import command, families, memory, sizing
from predictor.serving_logs import GPU_MEMORY_MIB, LLAMA_8B, SERVERS, Log

GIB = 2**30
EACH = pytest.mark.parametrize("log", SERVERS, ids=[log.name.partition("--h100")[0] for log in SERVERS])


def told(log: Log) -> memory.Memory:
    model = families.read(log.config, source=log.name)
    server = command.read(["vllm", "serve", "m", "--max-model-len", "8192", *log.options])
    return memory.needed(model, server, gpu_memory_mib=GPU_MEMORY_MIB)


@EACH
def test_weights_are_within_two_percent_of_what_was_logged(log: Log) -> None:
    assert told(log).weights / GIB == pytest.approx(log.weights, rel=0.02)


@pytest.mark.parametrize("log", [log for log in SERVERS if log.tokens], ids=lambda log: log.name.partition("--h100")[0])
def test_tokens_in_the_kv_cache_are_within_a_thousandth_of_what_was_logged(log: Log) -> None:
    # The log's two decimals of GiB are as many tokens as this.
    assert told(log).tokens(round(log.kv * GIB)) == pytest.approx(log.tokens, rel=0.001)


@EACH
def test_no_part_was_logged_as_larger_than_what_is_booked_for_it(log: Log) -> None:
    found = told(log)
    spare = sizing.spare(found)
    logged = log.activations + log.libraries + log.graphs
    assert logged * GIB <= found.activations + found.libraries + found.graphs + spare


@EACH
def test_activations_are_within_an_eighth_of_what_was_logged(log: Log) -> None:
    assert told(log).activations / GIB == pytest.approx(log.activations, rel=0.125)


def test_a_window_bounds_what_a_sequence_keeps() -> None:
    gemma = next(log for log in SERVERS if log.name.startswith("google-gemma-2-27b"))
    model = families.read(gemma.config, source="m")
    server = command.read(["vllm", "serve", "m", "--max-num-batched-tokens", "2048"])
    found = memory.needed(model, server, gpu_memory_mib=GPU_MEMORY_MIB)
    ((each, window),) = found.kv_windows
    assert window == 4096
    # vLLM asks for what a step adds to the window, and keeps one block of each kind of layer empty.
    empty = memory.LARGEST_BLOCK_TOKENS * (found.kv_token + 2 * each)
    assert found.kv(8192) == 8192 * found.kv_token + 6144 * each + empty
    assert found.kv(100) == 112 * (found.kv_token + each) + empty


def test_one_sequence_of_the_longest_and_vllms_empty_block_have_room() -> None:
    """What vLLM asks for at its start, or hangs without: https://github.com/vllm-project/vllm/pull/47272."""
    found = told(SERVERS[0])
    assert found.kv(8192) >= (8192 + 16) * 131072


def test_a_latent_vector_is_kept_whole_on_every_gpu() -> None:
    config = LLAMA_8B | {
        "model_type": "deepseek_v2",
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "n_routed_experts": 64,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 1408,
    }
    model = families.read(config, source="m")
    alone, shared = (command.read(["vllm", "serve", "m", "-tp", gpus]) for gpus in ("1", "4"))
    tokens = [memory.needed(model, one, gpu_memory_mib=GPU_MEMORY_MIB).kv_token for one in (alone, shared)]
    assert tokens == [32 * 576 * 2] * 2


def test_a_cache_in_fp8_takes_half() -> None:
    model = families.read(LLAMA_8B, source="m")
    plain = command.read(["vllm", "serve", "m"])
    half = dataclasses.replace(plain, kv_dtype="fp8")
    of = [memory.needed(model, one, gpu_memory_mib=GPU_MEMORY_MIB).kv_token for one in (plain, half)]
    assert of == [131072, 65536]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("-tp", "3"), "--tensor-parallel-size: 3: must divide the model's 32 heads of attention"),
        (("--quantization", "awq"), "--quantization: 'awq': needs a model that is stored so"),
    ],
)
def test_a_server_that_would_not_start_is_refused(options: tuple[str, ...], says: str) -> None:
    model = families.read(LLAMA_8B, source="m")
    server = command.read(["vllm", "serve", "m", *options])
    with pytest.raises(errors.InvalidInputError) as caught:
        memory.needed(model, server, gpu_memory_mib=GPU_MEMORY_MIB)
    assert says in str(caught.value)


def test_heads_that_cannot_be_divided_are_refused() -> None:
    model = families.read(LLAMA_8B | {"num_attention_heads": 40, "num_key_value_heads": 10}, source="m")
    with pytest.raises(errors.InvalidInputError, match="must divide the model's 10 heads of keys and values"):
        memory.needed(model, command.read(["vllm", "serve", "m", "-tp", "4"]), gpu_memory_mib=GPU_MEMORY_MIB)


def test_weights_that_the_server_shrinks_are_loaded_whole_first() -> None:
    model = families.read(LLAMA_8B, source="m")
    server = command.read(["vllm", "serve", "m", "--quantization", "fp8", "--max-model-len", "2048"])
    booked = sizing.size(model, server, devices.load()[GPUModel("NVIDIA-H200")]).booked_mib
    assert booked * 2**20 >= memory.weights_loading(model, server) > 1.7 * memory.weights(model, server)
