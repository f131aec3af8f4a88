"""What several networks are made of."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
    """Base of every network here."""


class Classifier(Block):
    """A network that maps `inputs` to logits, with cross entropy where labels are given."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> Any:
        """Logits (b, classes), or `{"loss": scalar}`."""
        logits = self.network(inputs)
        return logits if labels is None else {"loss": functional.cross_entropy(logits, labels)}


def images(network: nn.Module, batch_size: int, *, training: bool, size: int, classes: int) -> Any:
    """Return a job that classifies square colour images of `size` pixels."""
    inputs = {"inputs": torch.randn(batch_size, 3, size, size)}
    if training:
        inputs["labels"] = torch.randint(0, classes, (batch_size,))
    return Classifier(network), inputs


def convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, *, groups: int = 1) -> list[nn.Module]:
    """Convolution without bias, padded to keep the size, and batch normalisation."""
    padding = (kernel - 1) // 2
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]


def activated(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, *, groups: int = 1) -> list[nn.Module]:
    """Return the same with a rectifier behind it."""
    return [*convolution(inputs, outputs, kernel, stride, groups=groups), nn.ReLU(inplace=True)]


def head(features: int, classes: int) -> list[nn.Module]:
    """Mean over the image, and a linear layer."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes)]


def rounded_to_eight(value: float) -> int:
    """Return the nearest multiple of 8, at least 8 and not below 90 % of the value.

    How mobile networks scale their width.
    """
    result = max(8, int(value + 4) // 8 * 8)
    return result + 8 if result < 0.9 * value else result
