"""What servers of vLLM 0.19.0 logged at their start, on NVIDIA H100 80GB, published by llm-d-planner (Apache-2.0).

Facts alone are taken over: figures of single lines. Each log's address is `LOGS` and its name. By default
`--max-num-seqs` was 1024 and `--max-num-batched-tokens` 8192; the memory of the GPU is 79.19 GiB.
"""

from typing import Any, Final, NamedTuple

Config = dict[str, Any]

LOGS: Final = (
    "https://github.com/llm-d-incubation/llm-d-planner/blob/d3121e059da88662db39a926a3ead964be97359b/"
    "accuracy/results/v0.19.0/logs/"
)
GPU_MEMORY_MIB: Final = 81089
"""79.19 GiB."""


class Log(NamedTuple):
    """One server: its model, what its command line said, and GiB of each of its GPUs; tokens of the KV cache."""

    name: str
    config: Config
    options: tuple[str, ...]
    weights: float
    activations: float
    libraries: float
    graphs: float
    kv: float
    tokens: int | None


def _config(family: str, **sizes: Any) -> Config:
    return {"model_type": family, "torch_dtype": "bfloat16", "max_position_embeddings": 131072} | sizes


def _gated(family: str, layers: int, width: int, inner: int, vocabulary: int, **more: Any) -> Config:
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": inner, "vocab_size": vocabulary}
    return _config(family, **sizes, **more)


LLAMA_8B: Final = _gated("llama", 32, 4096, 14336, 128256, num_attention_heads=32, num_key_value_heads=8)
FP8: Final[Config] = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
}
SERVERS: Final = (
    Log(
        "meta-llama-llama-3-1-8b--h100-80gb--tp1pp1dp1--16384.log", LLAMA_8B, (), 14.99, 1.89, 0.25, 0.91, 58.11, 476016
    ),
    Log(
        "meta-llama-llama-3---h100-80gb--tp1pp1dp1--8192-qfp8.log",
        LLAMA_8B,
        ("--quantization", "fp8"),
        8.49,
        1.89,
        0.25,
        0.87,
        64.61,
        529248,
    ),
    Log(
        "meta-llama-llama-3--h100-80gb--tp1pp1dp1--8192-dtf32.log",
        LLAMA_8B,
        ("--dtype", "float32"),
        29.98,
        2.21,
        0.25,
        0.79,
        42.8,
        175296,
    ),
    Log(
        "codellama-codellama-7b-h--h100-80gb--tp1pp1dp1--8192.log",
        _gated("llama", 32, 4096, 11008, 32016, num_attention_heads=32),
        (),
        12.56,
        0.77,
        0.25,
        0.89,
        61.66,
        126256,
    ),
    Log(
        "google-gemma-2-27b-it--h100-80gb--tp1pp1dp1--8192.log",
        _gated(
            "gemma2",
            46,
            4608,
            36864,
            256000,
            num_attention_heads=32,
            num_key_value_heads=16,
            head_dim=128,
            sliding_window=4096,
        ),
        (),
        50.72,
        3.66,
        0.26,
        1.23,
        20.59,
        None,
    ),
    Log(
        "google-gemma-2-2b-it--h100-80gb--tp1pp1dp1--8192.log",
        _gated(
            "gemma2",
            26,
            2304,
            9216,
            256000,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=256,
            sliding_window=4096,
        ),
        (),
        4.9,
        3.62,
        0.24,
        0.71,
        66.47,
        None,
    ),
    Log(
        "google-gemma-7b--h100-80gb--tp1pp1dp1--8192.log",
        _gated("gemma", 28, 3072, 24576, 256000, num_attention_heads=16, head_dim=256),
        (),
        15.91,
        3.63,
        0.25,
        0.94,
        55.44,
        129760,
    ),
    Log(
        "granite-3-1-8b--h100-80gb--tp1pp1dp1--8192.log",
        _gated(
            "granite",
            40,
            4096,
            12800,
            49155,
            num_attention_heads=32,
            num_key_value_heads=8,
            tie_word_embeddings=True,
        ),
        (),
        15.25,
        0.85,
        0.46,
        0.98,
        58.66,
        384432,
    ),
    Log(
        "qwen-qwen1-5-moe-a2-7b--h100-80gb--tp1pp1dp1--8192.log",
        _gated(
            "qwen2_moe",
            24,
            2048,
            5632,
            151936,
            num_attention_heads=16,
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
            num_experts=60,
            num_experts_per_tok=4,
        ),
        (),
        26.67,
        2.47,
        0.25,
        1.1,
        45.83,
        250304,
    ),
    Log(
        "fp8dyn-redhatai-qwen2-5---h100-80gb--tp1pp1dp1--8192.log",
        _gated(
            "qwen2", 28, 3584, 18944, 152064, num_attention_heads=28, num_key_value_heads=4, quantization_config=FP8
        ),
        (),
        8.14,
        2.21,
        0.24,
        0.81,
        64.64,
        1210304,
    ),
    Log(
        "fp8dyn-llama-3-3-70b--h100-80gb--tp2pp1dp1--8192.log",
        _gated(
            "llama", 80, 8192, 28672, 128256, num_attention_heads=64, num_key_value_heads=8, quantization_config=FP8
        ),
        ("--tensor-parallel-size", "2"),
        33.88,
        1.96,
        2.1,
        1.79,
        37.28,
        244304,
    ),
    Log(
        "openai-gpt-oss-20b--h100-80gb--tp2pp1dp1--8192.log",
        _gated(
            "gpt_oss",
            24,
            2880,
            2880,
            201088,
            num_attention_heads=64,
            num_key_value_heads=8,
            head_dim=64,
            num_local_experts=32,
            num_experts_per_tok=4,
            sliding_window=128,
            quantization_config={"quant_method": "mxfp4"},
        ),
        ("-tp", "2"),
        7.01,
        2.87,
        2.07,
        1.55,
        59.32,
        None,
    ),
)
