"""Networks for small devices: MobileNetV2 (Sandler 2018), MNASNet (Tan 2018), ShuffleNetV2 (Ma 2018)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from . import parts

# expansion, channels, blocks, stride; MNASNet adds the kernel
_MOBILENET = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_MNASNET = (
    (3, 24, 3, 2, 3),
    (3, 40, 3, 2, 5),
    (6, 80, 3, 2, 5),
    (6, 96, 2, 1, 3),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
_SHUFFLENET = {0.5: (48, 96, 192, 1024), 1.0: (116, 232, 464, 1024), 2.0: (244, 488, 976, 2048)}


class Inverted(parts.Block):
    """Widened, convolved per channel, narrowed; added to its input where the shape stays."""

    def __init__(self, body: list[nn.Module], *, added: bool) -> None:
        super().__init__()
        self.body, self.added = nn.Sequential(*body), added

    def forward(self, image: Tensor) -> Tensor:
        """Return the narrowed image."""
        return image + self.body(image) if self.added else self.body(image)


class Shuffled(parts.Block):
    """Half of the channels passed on, half convolved, then shuffled; with stride 2 both are convolved."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.split = stride == 1
        self.right = nn.Sequential(
            *parts.activated(inputs if stride == 2 else half, half, 1),
            *parts.convolution(half, half, 3, stride, groups=half),
            *parts.activated(half, half, 1),
        )
        left = [*parts.convolution(inputs, inputs, 3, stride, groups=inputs), *parts.activated(inputs, half, 1)]
        self.left = nn.Sequential(*(left if stride == 2 else []))

    def forward(self, image: Tensor) -> Tensor:
        """Return the shuffled image."""
        left, right = image.chunk(2, dim=1) if self.split else (image, image)
        joined = torch.cat([self.left(left), self.right(right)], dim=1)
        batch, channels, height, width = joined.shape
        shuffled: Tensor = joined.view(batch, 2, channels // 2, height, width).transpose(1, 2)
        return shuffled.reshape(batch, channels, height, width)


def mobilenetv2(batch_size: int, *, training: bool, width: float = 1.0, size: int = 224, classes: int = 1000) -> Any:
    """MobileNetV2; below 64 pixels the first convolution and the second stage keep the size."""
    small = size < 64
    inputs = parts.rounded_to_eight(32 * width)
    layers: list[nn.Module] = _six(parts.convolution(3, inputs, 3, 1 if small else 2))
    for expansion, channels, blocks, stride in _MOBILENET:
        outputs = parts.rounded_to_eight(channels * width)
        for index in range(blocks):
            step = stride if index == 0 and not (small and channels == 24) else 1
            layers.append(_inverted(inputs, outputs, step, expansion))
            inputs = outputs
    last = parts.rounded_to_eight(1280 * max(1.0, width))
    layers += [*_six(parts.convolution(inputs, last, 1)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)]
    network = nn.Sequential(*layers, nn.Linear(last, classes))
    return parts.images(network, batch_size, training=training, size=size, classes=classes)


def mnasnet(batch_size: int, *, training: bool, width: float = 1.0, size: int = 224, classes: int = 1000) -> Any:
    """MNASNet-B1."""
    first, inputs = parts.rounded_to_eight(32 * width), parts.rounded_to_eight(16 * width)
    layers: list[nn.Module] = [
        *parts.activated(3, first, 3, 2),
        *parts.activated(first, first, 3, 1, groups=first),
        *parts.convolution(first, inputs, 1),
    ]
    for expansion, channels, blocks, stride, kernel in _MNASNET:
        outputs = parts.rounded_to_eight(channels * width)
        for index in range(blocks):
            step = stride if index == 0 else 1
            layers.append(_inverted(inputs, outputs, step, expansion, kernel=kernel))
            inputs = outputs
    layers += [*parts.activated(inputs, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)]
    network = nn.Sequential(*layers, nn.Linear(1280, classes))
    return parts.images(network, batch_size, training=training, size=size, classes=classes)


def shufflenetv2(batch_size: int, *, training: bool, width: float = 1.0, size: int = 224, classes: int = 1000) -> Any:
    """ShuffleNetV2; below 64 pixels the first convolution keeps the size and nothing is pooled."""
    *stages, last = _SHUFFLENET[width]
    layers: list[nn.Module] = parts.activated(3, 24, 3, 1 if size < 64 else 2)
    if size >= 64:
        layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 24
    for outputs, blocks in zip(stages, (4, 8, 4), strict=True):
        for index in range(blocks):
            layers.append(Shuffled(inputs, outputs, 2 if index == 0 else 1))
            inputs = outputs
    network = nn.Sequential(*layers, *parts.activated(inputs, last, 1), *parts.head(last, classes))
    return parts.images(network, batch_size, training=training, size=size, classes=classes)


def _six(layers: list[nn.Module]) -> list[nn.Module]:
    return [*layers, nn.ReLU6(inplace=True)]


def _inverted(inputs: int, outputs: int, stride: int, expansion: int, *, kernel: int = 0) -> nn.Module:
    """MNASNet gives a kernel; without one it is MobileNetV2's block: 3 x 3, rectified at six."""
    six, kernel = not kernel, kernel or 3
    middle = inputs * expansion
    widened = parts.convolution(inputs, middle, 1) if expansion > 1 else []
    convolved = parts.convolution(middle, middle, kernel, stride, groups=middle)
    if six:
        body = [*(_six(widened) if widened else []), *_six(convolved)]
    else:
        body = [*widened, nn.ReLU(inplace=True), *convolved, nn.ReLU(inplace=True)]
    return Inverted([*body, *parts.convolution(middle, outputs, 1)], added=inputs == outputs and stride == 1)
