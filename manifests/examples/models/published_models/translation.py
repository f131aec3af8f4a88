"""Transformer (base) translating Multi30k from English to German: 6 layers, attention written out, not fused."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SOURCE_WORDS, TARGET_WORDS = 2_911, 3_149
"""Words that occur 5 times or more in the training sentences."""
LENGTHS = {16: 24, 32: 26, 64: 29, 128: 32, 256: 35}
"""The longest sentence of a batch, which the others are filled up to: captions have 14 words, the longest 43."""


class Attention(nn.Module):
    """Eight heads of 64, normalised after the sum with the input."""

    def __init__(self, width: int = 512, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm = nn.LayerNorm(width)

    def forward(self, queries: Tensor, keys: Tensor, hidden: Tensor) -> Tensor:
        """Queries of shape (b, q, d) over keys (b, k, d); `hidden` (b, q, k) says what may not be seen."""
        query, key, value = (
            layer(values).unflatten(2, (self.heads, -1)).permute(2, 0, 1, 3).contiguous().flatten(0, 1)
            for layer, values in ((self.query, queries), (self.key, keys), (self.value, keys))
        )
        scores = torch.bmm(query, key.transpose(1, 2)) / 8.0
        weights = torch.softmax(scores.masked_fill(hidden.repeat(self.heads, 1, 1), float("-inf")), dim=2)
        mixed = torch.bmm(functional.dropout(weights, 0.1, self.training), value)
        merged = mixed.unflatten(0, (self.heads, -1)).permute(1, 2, 0, 3).contiguous().flatten(2)
        result: Tensor = self.norm(functional.dropout(self.out(merged), 0.1, self.training) + queries)
        return result


class FeedForward(nn.Module):
    """Two convolutions of width 1."""

    def __init__(self, width: int = 512, inner: int = 2048) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Conv1d(width, inner, 1), nn.Conv1d(inner, width, 1), nn.LayerNorm(width)

    def forward(self, values: Tensor) -> Tensor:
        """Values of shape (b, n, d)."""
        inner = self.second(functional.relu(self.first(values.transpose(1, 2)))).transpose(1, 2)
        result: Tensor = self.norm(functional.dropout(inner, 0.1, self.training) + values)
        return result


class Stack(nn.Module):
    """Six layers: attention to itself, to the source where there is one, and a perceptron."""

    def __init__(self, words: int, *, sources: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, 512), nn.Embedding(64, 512)
        self.places.weight.requires_grad_(requires_grad=False)
        kinds = [Attention, *([Attention] if sources else []), FeedForward]
        self.layers = nn.ModuleList(nn.ModuleList(kind() for kind in kinds) for _ in range(6))

    def forward(self, words: Tensor, places: Tensor, masks: list[Tensor], source: Tensor | None) -> Tensor:
        """States of shape (b, n, 512)."""
        values, padding = self.words(words) + self.places(places), words.ne(0).float().unsqueeze(-1)
        for layer in self.layers:
            *attentions, perceptron = layer
            for attention, mask, keys in zip(attentions, masks, (None, source), strict=False):
                values = attention(values, values if keys is None else keys, mask) * padding
            values = perceptron(values) * padding
        result: Tensor = values
        return result


class Translator(nn.Module):
    """Encoder and decoder; the last layer shares its weights with the target's embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Stack(SOURCE_WORDS, sources=False), Stack(TARGET_WORDS, sources=True)
        self.head = nn.Linear(512, TARGET_WORDS, bias=False)
        self.head.weight = self.decoder.words.weight

    def forward(self, source: Tensor, source_places: Tensor, target: Tensor, target_places: Tensor) -> Tensor:
        """Logits of shape (b * n, words)."""
        hidden = source.eq(0).unsqueeze(1)
        later = torch.triu(torch.ones(target.shape[1], target.shape[1], dtype=torch.bool), diagonal=1)
        encoded = self.encoder(source, source_places, [hidden.expand(-1, source.shape[1], -1)], None)
        masks = [target.eq(0).unsqueeze(1) | later, hidden.expand(-1, target.shape[1], -1)]
        logits: Tensor = self.head(self.decoder(target, target_places, masks, encoded)) * 512**-0.5
        return logits.flatten(0, 1)


def job(batch_size: int) -> Any:
    """A step with Adam, and the count of the words it got right."""
    model, length = Translator(), LENGTHS[batch_size]
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad])
    inputs = tuple(torch.zeros(batch_size, length, dtype=torch.long) for _ in range(4))

    def step(source: Tensor, source_places: Tensor, target: Tensor, target_places: Tensor) -> None:
        optimizer.zero_grad()
        logits, gold = model(source, source_places, target[:, :-1], target_places[:, :-1]), target[:, 1:]
        gold = gold.contiguous().view(-1)
        functional.cross_entropy(logits, gold, ignore_index=0, reduction="sum").backward()
        optimizer.step()
        (logits.max(1)[1].eq(gold) & gold.ne(0)).sum()

    return {"modules": [model], "inputs": inputs, "step": step}
