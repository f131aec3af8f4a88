"""The measured networks, in a size for two cores and one for a GPU. Plain torch definitions, trained on random data.

Each function takes a size and returns the module and its inputs; a training job minimises `loss`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Size(enum.StrEnum):
    """What the networks are scaled to."""

    CPU = "cpu"
    GPU = "cuda"


class Block(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
    """A module."""


class RNNLM(Block):
    """Zaremba's language model: embedding, two LSTM layers, softmax over the vocabulary."""

    def __init__(self, *, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, tokens: Any) -> Any:
        """Return a score for each word of the vocabulary at each place."""
        return self.output(self.lstm(self.embedding(tokens))[0])


class Bottleneck(Block):
    """ResNet's block of three convolutions."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            *_convolution(inputs, width, 1),
            nn.ReLU(inplace=True),
            *_convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *_convolution(width, outputs, 1),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_convolution(inputs, outputs, 1, stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: Any) -> Any:
        """Return the block's features."""
        return self.relu(self.body(images) + self.shortcut(images))


class GPTBlock(Block):
    """GPT-2's block: causal attention and a network of two layers, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.LayerNorm(width)
        self.projection = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.second = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, states: Any) -> Any:
        """Return the states after attention and feed-forward network."""
        batch, length, width = states.shape
        parts = self.projection(self.first(states)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        states = states + self.merge(mixed.transpose(1, 2).reshape(batch, length, width))
        return states + self.feed(self.second(states))


class GPT2(Block):
    """GPT-2: embeddings, blocks, norm, softmax over the vocabulary."""

    def __init__(self, *, vocabulary: int, length: int, width: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(GPTBlock(width, max(1, width // 64)) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        """Return a score for each word of the vocabulary at each place."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.output(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


def transformer(size: Size) -> tuple[Any, Any]:
    """Return the encoder whose requests have a deadline, and one request."""
    width, layers, batch, length = (256, 4, 4, 64) if size is Size.CPU else (1024, 12, 16, 128)
    layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True)
    return nn.TransformerEncoder(layer, layers).eval(), torch.randn(batch, length, width)


def rnnlm(size: Size) -> tuple[Any, Any]:
    """Return RNNLM and a batch of sentences."""
    vocabulary, width, batch, length = (5000, 650, 20, 20) if size is Size.CPU else (10_000, 1500, 64, 35)
    return RNNLM(vocabulary=vocabulary, width=width), torch.randint(vocabulary, (length, batch))


def vgg16(size: Size) -> tuple[Any, Any]:
    """Return VGG-16 and a batch of images; for two cores with 64 pixels and one layer behind the convolutions."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    pixels, batch, place = (64, 4, 2) if size is Size.CPU else (224, 32, 7)
    wide = 512 if size is Size.CPU else 4096
    head = [nn.Flatten(), nn.Linear(512 * place**2, wide), nn.ReLU(inplace=True), nn.Linear(wide, 1000)]
    return nn.Sequential(*layers, *head), torch.randn(batch, 3, pixels, pixels)


def resnet50(size: Size) -> tuple[Any, Any]:
    """Return ResNet-50 and a batch of images."""
    layers: list[nn.Module] = [*_convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for number in range(count):
            layers.append(Bottleneck(inputs, width, 2 if stage and not number else 1))
            inputs = 4 * width
    pixels, batch = (64, 8) if size is Size.CPU else (224, 32)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]
    return nn.Sequential(*layers, *head), torch.randn(batch, 3, pixels, pixels)


def gpt2(size: Size) -> tuple[Any, Any]:
    """Return GPT-2 and a batch of texts."""
    vocabulary, width, layers, batch, length = (5000, 256, 4, 8, 128) if size is Size.CPU else (50_257, 768, 12, 8, 512)
    return GPT2(vocabulary=vocabulary, length=length, width=width, layers=layers), torch.randint(
        vocabulary, (batch, length)
    )


TRAINING: dict[str, Callable[[Size], tuple[Any, Any]]] = {
    "rnnlm": rnnlm,
    "vgg16": vgg16,
    "resnet50": resnet50,
    "gpt2": gpt2,
}


def loss(output: Any) -> Any:
    """Return the cross-entropy against the first class: the work is that of training, the data are random."""
    scores = output.flatten(0, -2)
    target = torch.zeros(scores.shape[0], dtype=torch.long, device=scores.device)
    return nn.functional.cross_entropy(scores, target) / math.e


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return [layer, nn.BatchNorm2d(outputs)]
