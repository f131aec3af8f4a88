"""Residual networks: ResNet and ResNeXt (He et al. 2015, Xie et al. 2016), PyramidNet (Han et al. 2016).

`small` is the form for images of 32 pixels: a first convolution of 3 x 3 with stride 1 and no pooling behind it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from . import parts


class Residual(parts.Block):
    """A body added to its input, which is projected where the shape changes."""

    def __init__(self, body: list[nn.Module], shortcut: list[nn.Module]) -> None:
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*body), nn.Sequential(*shortcut)

    def forward(self, image: Tensor) -> Tensor:
        """Return the sum, rectified."""
        return functional.relu(self.body(image) + self.shortcut(image), inplace=True)


class Pyramidal(parts.Block):
    """A body whose output has more channels than its input: the shortcut is padded with zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            *parts.activated(inputs, outputs, 3, stride),
            *parts.convolution(outputs, outputs),
        )
        self.added = outputs - inputs
        self.shortcut = nn.AvgPool2d(2) if stride == 2 else nn.Identity()

    def forward(self, image: Tensor) -> Tensor:
        """Return the sum."""
        return self.body(image) + functional.pad(self.shortcut(image), (0, 0, 0, 0, 0, self.added))


def resnet(batch_size: int, *, training: bool, depth: int, size: int = 224, classes: int = 1000) -> Any:
    """ResNet of 18, 34, 50 layers; depth 26: bottlenecks in the places of ResNet-18."""
    basic, bottleneck = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}, {26: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
    layers = list(_stem(64, small=size < 64))
    inputs = 64
    for stage, blocks in enumerate(basic.get(depth) or bottleneck[depth]):
        width = 64 << stage
        outputs = width if depth in basic else 4 * width
        for index in range(blocks):
            stride = 2 if stage > 0 and index == 0 else 1
            body = _basic(inputs, width, stride) if depth in basic else _bottleneck(inputs, width, outputs, stride)
            layers.append(Residual(body, _projection(inputs, outputs, stride)))
            inputs = outputs
    network = nn.Sequential(*layers, *parts.head(inputs, classes))
    return parts.images(network, batch_size, training=training, size=size, classes=classes)


def resnext(batch_size: int, *, training: bool, blocks: int, cardinality: int, width: int) -> Any:
    """ResNeXt for images of 32 pixels: three stages of `blocks` bottlenecks with `cardinality` groups."""
    layers: list[nn.Module] = parts.activated(3, 64, 1)
    inputs = 64
    for stage in range(3):
        middle = cardinality * width << stage
        for index in range(blocks):
            stride = 2 if stage > 0 and index == 0 else 1
            body = _bottleneck(inputs, middle, 2 * middle, stride, groups=cardinality)
            layers.append(Residual(body, _projection(inputs, 2 * middle, stride)))
            inputs = 2 * middle
    network = nn.Sequential(*layers, *parts.head(inputs, 10))
    return parts.images(network, batch_size, training=training, size=32, classes=10)


def pyramidnet(batch_size: int, *, training: bool, alpha: int, depth: int = 110, size: int = 32) -> Any:
    """PyramidNet of basic blocks for images of 32 pixels: channels grow by `alpha` from first to last."""
    blocks = (depth - 2) // 6
    layers: list[nn.Module] = parts.convolution(3, 16)
    width, inputs = 16.0, 16
    for stage in range(3):
        for index in range(blocks):
            width += alpha / (3 * blocks)
            layers.append(Pyramidal(inputs, round(width), 2 if stage > 0 and index == 0 else 1))
            inputs = round(width)
    tail = [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), *parts.head(inputs, 10)]
    return parts.images(nn.Sequential(*layers, *tail), batch_size, training=training, size=size, classes=10)


def _stem(width: int, *, small: bool) -> list[nn.Module]:
    if small:
        return parts.activated(3, width, 3)
    return [*parts.activated(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]


def _basic(inputs: int, width: int, stride: int) -> list[nn.Module]:
    return [*parts.activated(inputs, width, 3, stride), *parts.convolution(width, width)]


def _bottleneck(inputs: int, width: int, outputs: int, stride: int, *, groups: int = 1) -> list[nn.Module]:
    return [
        *parts.activated(inputs, width, 1),
        *parts.activated(width, width, 3, stride, groups=groups),
        *parts.convolution(width, outputs, 1),
    ]


def _projection(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    return [] if inputs == outputs and stride == 1 else parts.convolution(inputs, outputs, 1, stride)
