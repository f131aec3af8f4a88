"""The weights that a `config.json` declares are those of transformers' own models, family by family."""

from typing import Any

import pytest
import torch
import transformers

from cotenant_predictor.serving import families

SIZES: dict[str, Any] = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 384,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}
EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 96}
LATENT: dict[str, Any] = {
    "num_key_value_heads": 8,
    "kv_lora_rank": 64,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}
GPT2: dict[str, Any] = {"n_embd": 256, "n_layer": 4, "n_head": 8, "n_positions": 128, "vocab_size": 1000}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama-with-biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "granite": ("granite", {}),
    "mistral": ("mistral", {"head_dim": 64}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 64}),
    "phi3": ("phi3", {"pad_token_id": 0}),
    "gemma": ("gemma", {"head_dim": 64}),
    "gemma2": ("gemma2", {"head_dim": 64}),
    "gemma3_text": ("gemma3_text", {"head_dim": 64}),
    "mixtral": ("mixtral", {"num_local_experts": 8, "num_experts_per_tok": 2}),
    "qwen2_moe": ("qwen2_moe", EXPERTS | {"num_experts": 8, "shared_expert_intermediate_size": 192}),
    "qwen3_moe": ("qwen3_moe", EXPERTS | {"num_experts": 8, "head_dim": 64, "mlp_only_layers": [1]}),
    "deepseek_v2-without-queries-narrowed": ("deepseek_v2", EXPERTS | LATENT | {"q_lora_rank": None}),
    "deepseek_v2": ("deepseek_v2", EXPERTS | LATENT | {"q_lora_rank": 48}),
    "deepseek_v3": ("deepseek_v3", EXPERTS | LATENT | {"q_lora_rank": 48, "n_group": 2, "topk_group": 1}),
    "gpt_oss": ("gpt_oss", {"num_local_experts": 8, "num_experts_per_tok": 2, "head_dim": 32}),
    "gpt_neox": ("gpt_neox", {}),
    "opt": ("opt", {"ffn_dim": 384, "word_embed_proj_dim": 256}),
    "gpt2": ("gpt2", GPT2),
    "bert": ("bert", {"type_vocab_size": 2}),
    "roberta": ("roberta", {"type_vocab_size": 1}),
    "xlm-roberta": ("xlm-roberta", {"type_vocab_size": 1}),
}
ENCODERS = ("bert", "roberta", "xlm-roberta")


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_those_of_transformers(name: str) -> None:
    family, more = MODELS[name]
    sizes = {} if family == "gpt2" else SIZES
    config = transformers.AutoConfig.for_model(family, **sizes | more)
    kind = transformers.AutoModel if family in ENCODERS else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    counted = sum({id(one): one.numel() for one in model.parameters()}.values())
    # A correction of the router is a buffer there, and a weight of the file.
    counted += sum(one.numel() for key, one in model.named_buffers() if key.endswith("e_score_correction_bias"))
    declared = config.to_dict() | {"model_type": family}
    assert families.read(declared, source=name).parameters == counted


def test_every_family_is_held_against_transformers() -> None:
    assert {family for family, _ in MODELS.values()} == set(families.families())
