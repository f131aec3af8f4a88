"""Language models as their `config.json` declares them. Counts are held against transformers' in `tests/torch`."""

from typing import Any

import pytest

from cotenant_api import errors
from cotenant_predictor.serving import families
from predictor.serving_logs import LLAMA_8B

PUBLISHED = {
    "meta-llama/Llama-3.1-8B": (LLAMA_8B, 8_030_261_248),
    "meta-llama/Llama-2-7b-hf": (
        LLAMA_8B | {"intermediate_size": 11008, "vocab_size": 32000, "num_key_value_heads": 32},
        6_738_415_616,
    ),
    "Qwen/Qwen2.5-7B": (
        LLAMA_8B
        | {
            "model_type": "qwen2",
            "hidden_size": 3584,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "intermediate_size": 18944,
            "vocab_size": 152064,
        },
        7_615_616_512,
    ),
    "mistralai/Mixtral-8x7B-v0.1": (
        LLAMA_8B | {"model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2},
        46_702_792_704,
    ),
    "openai-community/gpt2": (
        {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257},
        124_439_808,
    ),
}
"""Parameters as the models' own files have them."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_has_as_many_parameters_as_its_files(name: str) -> None:
    config, parameters = PUBLISHED[name]
    assert families.read(config, source=name).parameters == parameters


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"model_type": None}, "config.json: model_type: None: must be there"),
        ({"model_type": "lama"}, "config.json: model_type: 'lama': is not known; did you mean llama?"),
        ({"model_type": ["llama"]}, "config.json: model_type: ['llama']: must be a text"),
        ({"hidden_size": None}, "config.json: hidden_size: None: must be there"),
        ({"hidden_size": 0}, "config.json: hidden_size: 0: must be a whole number from 1"),
        ({"hidden_size": True}, "config.json: hidden_size: True: must be a whole number"),
        ({"hidden_size": "4096"}, "config.json: hidden_size: '4096': must be a whole number"),
        ({"num_hidden_layers": 10**30}, "config.json: num_hidden_layers: "),
        ({"num_key_value_heads": 5}, "config.json: num_key_value_heads: 5: must divide num_attention_heads"),
        ({"torch_dtype": "int3"}, "config.json: torch_dtype: 'int3': must be one of float32, float16, bfloat16"),
        ({"tie_word_embeddings": "no"}, "config.json: tie_word_embeddings: 'no': must be true or false"),
        ({"layer_types": ["full_attention"]}, "config.json: layer_types: 1: must name the kind of each of the 32"),
        ({"layer_types": "full"}, "config.json: layer_types: 'full': must be a list"),
        ({"quantization_config": []}, "config.json: quantization_config: []: must be an object"),
        (
            {"quantization_config": {"quant_method": "hqq"}},
            "config.json: quantization_config: quant_method: 'hqq': is not known; known are",
        ),
        (
            {"quantization_config": {"quant_method": "awq"}},
            "config.json: quantization_config: bits: None: must be there",
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "fp8",
                    "ignored_layers": ["lm_head", "model.layers.0.mlp.up_proj"],
                }
            },
            "config.json: quantization_config: ignored_layers: 'model.layers.0.mlp.up_proj': layers that are stored",
        ),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*mlp.*": {"bits": 8}}}},
            "config.json: quantization_config: dynamic: ",
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {
                        "group_0": {"weights": {"num_bits": 4, "group_size": 128}},
                        "group_1": {"weights": {"num_bits": 8}},
                    },
                }
            },
            "config.json: quantization_config: config_groups: 2: must have groups with weights of one kind",
        ),
    ],
)
def test_what_cannot_be_used_is_told_by_its_field(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        families.read(LLAMA_8B | changed, source="config.json")
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("declared", "bits"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 4.0),
        ({"quant_method": "fp8"}, 8.0),
        ({"quant_method": "bitsandbytes"}, 4.5),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8.0),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "modules_to_not_convert": ["lm_head"]}, 4 + 20 / 64),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}},
            8.0,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 64}}},
            },
            4 + 20 / 64,
        ),
    ],
)
def test_a_stored_weight_has_so_many_bits_with_its_scales(declared: dict[str, Any], bits: float) -> None:
    model = families.read(LLAMA_8B | {"quantization_config": declared}, source="m")
    assert model.quantization is not None
    assert model.quantization.bits == pytest.approx(bits)


def test_a_token_uses_a_part_of_the_experts() -> None:
    model = families.read(PUBLISHED["mistralai/Mixtral-8x7B-v0.1"][0], source="m")
    assert model.used_parameters == pytest.approx(12.7e9, rel=0.02)


def test_a_model_that_only_embeds_keeps_nothing_of_a_token() -> None:
    config = {
        "model_type": "bert",
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
    }
    model = families.read(config, source="m")
    assert (model.parameters, model.layers[0].kv_values, model.vocabulary) == (109_482_240, 0, 0)


def test_qwen_looks_back_at_a_window_from_some_layer_on() -> None:
    config = LLAMA_8B | {"model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 28}
    layers = families.read(config | {"use_sliding_window": True}, source="m").layers
    assert [layer.window for layer in layers] == [None] * 28 + [4096] * 4
    assert all(layer.window is None for layer in families.read(config, source="m").layers)
