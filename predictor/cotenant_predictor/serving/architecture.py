"""A language model: its weights by kind, and what a token leaves in the KV cache."""

from dataclasses import dataclass
from typing import Final

from cotenant_predictor.serving.quantization import Quantization


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer.

    Attributes:
        attention: weights of its attention's linear layers.
        dense: weights of linear layers of the rest that every token uses.
        experts: weights of the linear layers of all its experts.
        used: of the experts' weights, those that one token uses.
        other: weights that no quantisation shrinks: norms, biases, routers.
        kv_values: values that a token leaves in the KV cache.
        kv_heads: between how many GPUs these values can be divided; 0: each has all.
        window: how many tokens it looks back; None: at all.
    """

    attention: int
    dense: int = 0
    experts: int = 0
    used: int = 0
    other: int
    kv_values: int
    kv_heads: int
    window: int | None = None

    @property
    def linear(self) -> int:
        """Weights of linear layers."""
        return self.attention + self.dense + self.experts


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """A decoder, or an encoder that embeds or ranks text.

    Attributes:
        family: its `model_type`.
        embedding: weights of the embeddings, of tokens and positions.
        head: weights of the output layer; 0: it shares those of the embedding, or there is none.
        other: weights outside of layers, embedding and head.
        vocabulary: 0: it gives no tokens back.
        width: values of a token between layers.
        widest: values of a token inside of a layer, at most.
        query_heads: heads of attention, by their number.
        context: tokens of a sequence, as far as it was trained for.
        dtype: type of the weights as they are stored.
        quantization: as the configuration declares it; None: not at all.
    """

    family: str
    layers: tuple[Layer, ...]
    embedding: int
    head: int
    other: int
    vocabulary: int
    width: int
    widest: int
    query_heads: int
    context: int
    dtype: str
    quantization: Quantization | None = None

    @property
    def parameters(self) -> int:
        """All weights."""
        return self.embedding + self.head + self.other + sum(layer.linear + layer.other for layer in self.layers)

    @property
    def used_parameters(self) -> int:
        """Weights of linear layers that one token uses, the output layer with them."""
        output = self.vocabulary * self.width
        return output + sum(layer.attention + layer.dense + layer.used for layer in self.layers)


TYPES: Final = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
"""What a `config.json` calls them."""
