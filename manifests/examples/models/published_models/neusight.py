"""The language models whose step time the neusight set measured: fp32, eager attention, synthetic tokens.

A training step there is one forward and one backward pass without an optimizer, so it has none here. Sizes are those
of the set's model configurations: its "GPT-3 XL" is 3,072 wide.
"""

import functools
import itertools
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from .jobs import Published

_LENGTHS = {"bert_large": 512, "gpt2_large": 1024, "gpt3_xl": 2048, "gpt3_27": 2048, "opt_13": 2048, "switchxl4": 512}
_BATCHES = {
    "bert_large": (2, 8, 16),
    "gpt2_large": (1, 4, 8, 16),
    "gpt3_xl": (1, 2, 4, 8),
    "gpt3_27": (1, 2, 4, 8),
    "opt_13": (1, 2, 4, 8),
    "switchxl4": (1, 2),
}
_COMPILED = (("bert_large", 8), ("bert_large", 16), ("gpt2_large", 4), ("gpt2_large", 8))
"""Inference that was measured with torch.compile, too."""
_GPT = {
    "gpt2_large": {"n_embd": 1280, "n_head": 20, "n_layer": 36, "n_positions": 1024},
    "gpt3_xl": {"n_embd": 3072, "n_head": 24, "n_layer": 24, "n_positions": 2048},
    "gpt3_27": {"n_embd": 2560, "n_head": 32, "n_layer": 32, "n_positions": 2048},
}


class ExpertsOfFixedSize(nn.Module):
    """A switch layer in which every expert takes as many tokens as it has room for, whatever the router says."""

    def __init__(self, sparse: Any, *, capacity: int) -> None:
        super().__init__()
        self.router, self.experts, self.capacity = sparse.router, sparse.experts, capacity

    def forward(self, states: Tensor) -> Tensor:
        """States of shape (b, n, d), mixed by the experts."""
        _, probabilities, _ = self.router(states)
        flat = states.reshape(-1, states.shape[-1])
        mixed = flat.clone()
        for expert in self.experts.values():
            chosen = torch.zeros(states.shape[0] * self.capacity, dtype=torch.long)
            mixed = mixed.index_copy(0, chosen, expert(flat.index_select(0, chosen)))
        return probabilities * mixed.view_as(states)


def model_of(key: str, *, training: bool) -> nn.Module:
    """The model without weights."""
    if key == "bert_large":
        config = transformers.BertConfig(
            hidden_size=1024, num_attention_heads=16, num_hidden_layers=24, intermediate_size=4096
        )
        kind = transformers.BertForPreTraining if training else transformers.BertForSequenceClassification
    elif key in _GPT:
        config, kind = transformers.GPT2Config(**_GPT[key]), transformers.GPT2LMHeadModel
    elif key == "opt_13":
        config = transformers.OPTConfig(
            hidden_size=2048, num_attention_heads=32, num_hidden_layers=24, ffn_dim=8192, word_embed_proj_dim=2048
        )
        kind = transformers.OPTForCausalLM
    else:
        config, kind = _switch(), transformers.SwitchTransformersForConditionalGeneration
    config._attn_implementation = "eager"
    model = kind(config)
    if key == "switchxl4":
        _fix_sizes(model, capacity=config.expert_capacity)
    return model


def job(key: str, batch_size: int, *, training: bool) -> Any:
    """The model with tokens, and a forward and a backward pass where it trains."""
    model = model_of(key, training=training).train(training)
    tokens = torch.ones(batch_size, _LENGTHS[key], dtype=torch.long)
    inputs = {"input_ids": tokens}
    if key == "switchxl4":
        inputs["decoder_input_ids"] = tokens
    if key == "bert_large":  # its release of transformers adds a mask to the scores, however empty
        inputs["attention_mask"] = torch.zeros(batch_size, 1, 1, _LENGTHS[key])
    if not training:
        return model, inputs

    def step(**given: Tensor) -> None:
        output = model(**given)
        logits = output.prediction_logits if key == "bert_large" else output.logits
        functional.cross_entropy(logits.view(-1, logits.shape[-1]), tokens.view(-1)).backward()

    return {"modules": [model], "inputs": inputs, "step": step}


def jobs() -> list[Published]:
    """Every size that the set measured on one GPU, and those between."""
    sizes = [(key, batch) for key, batches in _BATCHES.items() for batch in batches]
    eager = [_published(key, batch, mode) for (key, batch), mode in itertools.product(sizes, ("inf", "train"))]
    return eager + [_published(key, batch, "inf-fusion") for key, batch in _COMPILED]


def _published(key: str, batch: int, mode: str) -> Published:
    label = f"{key},{_LENGTHS[key]},{batch},{mode}"  # model_name,seqlen,batch,mode of the set's table
    build = functools.partial(job, key, batch, training=mode == "train")
    name = label.replace(",", "-").replace("_", "-")
    return Published(label, name, build, batch, training=mode == "train", compiled=mode == "inf-fusion")


def _switch() -> Any:
    return transformers.SwitchTransformersConfig(
        d_model=1024,
        d_kv=128,
        d_ff=16384,
        num_heads=32,
        num_layers=24,
        num_decoder_layers=24,
        num_sparse_encoder_layers=12,
        num_sparse_decoder_layers=12,
        num_experts=4,
        expert_capacity=64,
    )


def _fix_sizes(model: nn.Module, *, capacity: int) -> None:
    for layer in list(model.modules()):
        if getattr(layer, "is_sparse", False) and hasattr(layer, "mlp"):
            layer.mlp = ExpertsOfFixedSize(layer.mlp, capacity=capacity)
