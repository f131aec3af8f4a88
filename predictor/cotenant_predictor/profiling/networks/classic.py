"""VGG, GoogLeNet, DenseNet and SqueezeNet.

In this order: Simonyan and Zisserman 2014, Szegedy et al. 2014, Huang et al. 2016, Iandola 2016.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from . import parts

_VGG = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_DENSENET = {
    121: (6, 12, 24, 16, 32, 64),
    169: (6, 12, 32, 32, 32, 64),
    161: (6, 12, 36, 24, 48, 96),
}
_INCEPTION = (
    (192, 64, 96, 128, 16, 32, 32),
    (256, 128, 128, 192, 32, 96, 64),
    (480, 192, 96, 208, 16, 48, 64),
    (512, 160, 112, 224, 24, 64, 64),
    (512, 128, 128, 256, 24, 64, 64),
    (512, 112, 144, 288, 32, 64, 64),
    (528, 256, 160, 320, 32, 128, 128),
    (832, 256, 160, 320, 32, 128, 128),
    (832, 384, 192, 384, 48, 128, 128),
)
_FIRE = ((96, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128), (256, 48, 192), (384, 48, 192), (384, 64, 256))


class Branches(parts.Block):
    """Branches on one input, beside each other in the channels."""

    def __init__(self, *branches: list[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*layers) for layers in branches)

    def forward(self, image: Tensor) -> Tensor:
        """All outputs, concatenated."""
        return torch.cat([branch(image) for branch in self.branches], dim=1)


class Fire(parts.Block):
    """SqueezeNet's module: squeezed, then expanded by 1 x 1 and 3 x 3 convolutions."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(inputs, squeezed, 1), nn.ReLU(inplace=True))
        self.expand = Branches(
            [nn.Conv2d(squeezed, expanded, 1), nn.ReLU(inplace=True)],
            [nn.Conv2d(squeezed, expanded, 3, padding=1), nn.ReLU(inplace=True)],
        )

    def forward(self, image: Tensor) -> Tensor:
        """Twice `expanded` channels."""
        result: Tensor = self.expand(self.squeeze(image))
        return result


class Dense(parts.Block):
    """DenseNet's layer: `growth` new channels behind those that came in."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(inplace=True),
            *parts.activated(inputs, 4 * growth, 1),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Input and new channels."""
        return torch.cat([image, self.body(image)], dim=1)


def vgg(batch_size: int, *, training: bool, depth: int, size: int = 224, classes: int = 1000) -> Any:
    """VGG with batch normalisation; below 64 pixels with one linear layer, else with the published three."""
    layers: list[nn.Module] = []
    inputs = 3
    for stage, count in enumerate(_VGG[depth]):
        width = min(512, 64 << stage)
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    network = nn.Sequential(*layers, *(parts.head(512, classes) if size < 64 else _wide_head(classes)))
    return parts.images(network, batch_size, training=training, size=size, classes=classes)


def googlenet(batch_size: int, *, training: bool, size: int = 224, classes: int = 1000) -> Any:
    """GoogLeNet with batch normalisation and 3 x 3 instead of 5 x 5 convolutions, without auxiliary classifiers."""
    small = size < 64
    layers: list[nn.Module] = parts.activated(3, 192, 3)
    if not small:
        layers = [
            *parts.activated(3, 64, 7, 2),
            _pool(),
            *parts.activated(64, 64, 1),
            *parts.activated(64, 192),
            _pool(),
        ]
    for index, row in enumerate(_INCEPTION):
        if index in (2, 7):
            layers.append(_pool())
        layers.append(_inception(*row))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1024, classes)]
    return parts.images(nn.Sequential(*layers), batch_size, training=training, size=size, classes=classes)


def densenet(batch_size: int, *, training: bool, depth: int, size: int = 224, classes: int = 1000) -> Any:
    """DenseNet-121, -161 or -169."""
    *blocks, growth, inputs = _DENSENET[depth]
    layers: list[nn.Module] = parts.activated(3, inputs, 3) if size < 64 else parts.activated(3, inputs, 7, 2)
    if size >= 64:
        layers.append(nn.MaxPool2d(3, 2, 1))
    for index, count in enumerate(blocks):
        for _ in range(count):
            layers.append(Dense(inputs, growth))
            inputs += growth
        layers += [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)]
        if index < len(blocks) - 1:
            layers += [nn.Conv2d(inputs, inputs // 2, 1, bias=False), nn.AvgPool2d(2)]
            inputs //= 2
    network = nn.Sequential(*layers, *parts.head(inputs, classes))
    return parts.images(network, batch_size, training=training, size=size, classes=classes)


def squeezenet(batch_size: int, *, training: bool, size: int = 224, classes: int = 1000) -> Any:
    """SqueezeNet 1.0."""
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 7, 2), nn.ReLU(inplace=True), _pool(0)]
    for index, row in enumerate((*_FIRE, (512, 64, 256))):
        if index in (3, 7):
            layers.append(_pool(0))
        layers.append(Fire(*row))
    layers += [nn.Dropout(0.5), nn.Conv2d(512, classes, 1), nn.ReLU(inplace=True)]
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return parts.images(network, batch_size, training=training, size=size, classes=classes)


def _pool(padding: int = 0) -> nn.Module:
    return nn.MaxPool2d(3, 2, padding, ceil_mode=True)


def _inception(inputs: int, *widths: int) -> nn.Module:
    one, reduce3, three, reduce5, five, pooled = widths
    return Branches(
        parts.activated(inputs, one, 1),
        [*parts.activated(inputs, reduce3, 1), *parts.activated(reduce3, three)],
        [*parts.activated(inputs, reduce5, 1), *parts.activated(reduce5, five)],
        [nn.MaxPool2d(3, 1, 1), *parts.activated(inputs, pooled, 1)],
    )


def _wide_head(classes: int) -> list[nn.Module]:
    return [
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        *(nn.Linear(512 * 49, 4096), nn.ReLU(inplace=True), nn.Dropout()),
        *(nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout()),
        nn.Linear(4096, classes),
    ]
