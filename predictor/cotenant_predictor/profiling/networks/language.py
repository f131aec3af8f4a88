"""Text: BERT (Devlin et al. 2018), ALBERT (Lan et al. 2019), and an LSTM language model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import parts


class Attention(parts.Block):
    """Multi-head attention; keys and values from `context`, or from the text itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, text: Tensor, context: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """From (b, length, width) the same shape."""
        source = text if context is None else context
        parts_of = [
            self._split(layer(x)) for layer, x in ((self.query, text), (self.key, source), (self.value, source))
        ]
        mixed = functional.scaled_dot_product_attention(*parts_of, is_causal=causal)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result

    def _split(self, text: Tensor) -> Tensor:
        split: Tensor = text.unflatten(2, (self.heads, -1))
        return split.transpose(1, 2)


class Layer(parts.Block):
    """A transformer layer: attention and a perceptron, normalised behind them or before them."""

    def __init__(self, width: int, heads: int, *, before: bool, context: bool = False) -> None:
        super().__init__()
        self.attention, self.norm = Attention(width, heads), nn.LayerNorm(width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.last_norm, self.before = nn.LayerNorm(width), before
        self.cross = Attention(width, heads) if context else None
        self.cross_norm = nn.LayerNorm(width) if context else None

    def forward(self, text: Tensor, context: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """From (b, length, width) the same shape."""
        if not self.before:
            text = self.norm(text + self.attention(text))
            return self.last_norm(text + self.perceptron(text))
        text = text + self.attention(self.norm(text), causal=causal)
        if self.cross is not None and self.cross_norm is not None:
            text = text + self.cross(self.cross_norm(text), context)
        return text + self.perceptron(self.last_norm(text))


class Encoder(parts.Block):
    """BERT's encoder for classifying sequences; `shared`: one layer used again and again, as in ALBERT."""

    def __init__(self, *, vocabulary: int, embedding: int, shared: bool, width: int = 768, layers: int = 12) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, embedding), nn.Embedding(512, embedding)
        self.segments, self.norm = nn.Embedding(2, embedding), nn.LayerNorm(embedding)
        self.mapping = nn.Linear(embedding, width) if embedding != width else nn.Identity()
        self.layers = nn.ModuleList(Layer(width, width // 64, before=False) for _ in range(1 if shared else layers))
        self.times = layers if shared else 1
        self.pooler, self.dropout, self.head = nn.Linear(width, width), nn.Dropout(0.1), nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (b, 2) of tokens (b, length)."""
        text = self.words(tokens) + self.positions.weight[: tokens.shape[1]] + self.segments.weight[0]
        text = self.mapping(self.norm(text))
        for _ in range(self.times):
            for layer in self.layers:
                text = layer(text)
        logits: Tensor = self.head(self.dropout(torch.tanh(self.pooler(text[:, 0]))))
        return logits


class LanguageModel(parts.Block):
    """A word-level language model: embedding, LSTM layers, softmax over the vocabulary."""

    def __init__(self, *, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Any:
        """Logits (b, length, vocabulary), or the mean cross entropy of the next words."""
        logits = self.head(self.lstm(self.embedding(tokens))[0])
        if labels is None:
            return logits
        return {"loss": functional.cross_entropy(logits.flatten(0, 1), labels.flatten())}


def bert(batch_size: int, *, training: bool, length: int = 128, width: int = 768, layers: int = 12) -> Any:
    """BERT-base."""
    encoder = Encoder(vocabulary=30_522, embedding=width, shared=False, width=width, layers=layers)
    return _classified(encoder, batch_size, 30_522, training=training, length=length)


def albert(batch_size: int, *, training: bool, length: int = 128) -> Any:
    """ALBERT-base: 12 layers that share their parameters, embeddings of 128."""
    encoder = Encoder(vocabulary=30_000, embedding=128, shared=True)
    return _classified(encoder, batch_size, 30_000, training=training, length=length)


def lstm(batch_size: int, *, training: bool, width: int, layers: int, length: int = 200) -> Any:
    """Return an LSTM language model with a vocabulary of 10,000."""
    inputs = {"tokens": torch.randint(0, 10_000, (batch_size, length))}
    if training:
        inputs["labels"] = torch.randint(0, 10_000, (batch_size, length))
    return LanguageModel(vocabulary=10_000, width=width, layers=layers), inputs


def _classified(encoder: nn.Module, batch_size: int, vocabulary: int, *, training: bool, length: int) -> Any:
    inputs = {"inputs": torch.randint(0, vocabulary, (batch_size, length))}
    if training:
        inputs["labels"] = torch.randint(0, 2, (batch_size,))
    return parts.Classifier(encoder), inputs
