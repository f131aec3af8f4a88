"""Networks for images of 32 x 32 in 10 classes, as repositories for CIFAR have them: full resolution behind the stem.

torchvision's definitions with another stem wherever they allow it; what torchvision lacks is written after its paper.
"""

from typing import Any

import torchvision
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import resnet
from torchvision.models.googlenet import BasicConv2d

CLASSES = 10


def resnet_of(block: Any, depths: list[int]) -> nn.Module:
    """ResNet whose stem is one convolution of 3 x 3."""
    model = resnet.ResNet(block, depths, num_classes=CLASSES)
    model.conv1, model.maxpool = _stem(64), nn.Identity()
    return model


def densenet(architecture: str) -> nn.Module:
    """DenseNet whose stem is one convolution of 3 x 3 and nothing else."""
    model = torchvision.models.get_model(architecture, num_classes=CLASSES)
    model.features.conv0 = _stem(model.features.conv0.out_channels)
    model.features.norm0 = model.features.relu0 = model.features.pool0 = nn.Identity()
    return model


def mobilenet_v2() -> nn.Module:
    """MobileNetV2 with stride 1 in the stem and in the second stage."""
    rows = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    model = torchvision.models.MobileNetV2(CLASSES, inverted_residual_setting=[list(row) for row in rows])
    model.features[0][0] = _stem(32)
    return model


def shufflenet_v2(architecture: str) -> nn.Module:
    """ShuffleNetV2 with stride 1 in the stem and without its pooling."""
    model = torchvision.models.get_model(architecture, num_classes=CLASSES)
    model.conv1[0], model.maxpool = _stem(24), nn.Identity()
    return model


def inception() -> nn.Module:
    """GoogLeNet with batch norm, from the first Inception block on; before it one convolution of 3 x 3 to 192."""
    model = torchvision.models.GoogLeNet(CLASSES, aux_logits=False, init_weights=False)
    model.conv1 = BasicConv2d(3, 192, kernel_size=3, padding=1)
    model.maxpool1 = model.conv2 = model.conv3 = model.maxpool2 = nn.Identity()
    return model


def vgg19() -> nn.Module:
    """VGG-19 with batch norm; one layer classifies the one pixel that five poolings leave."""
    model = torchvision.models.vgg19_bn(num_classes=CLASSES)
    model.avgpool, model.classifier = nn.Identity(), nn.Linear(512, CLASSES)
    return model


class Grouped(nn.Module):
    """ResNeXt's block: 1 x 1, 3 x 3 in `groups`, 1 x 1 to twice the width, beside a projected shortcut."""

    def __init__(self, inputs: int, width: int, *, groups: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *_normalised(nn.Conv2d(inputs, width, 1, bias=False)),
            nn.ReLU(),
            *_normalised(nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False)),
            nn.ReLU(),
            *_normalised(nn.Conv2d(width, 2 * width, 1, bias=False)),
        )
        self.shortcut = nn.Sequential(*_normalised(nn.Conv2d(inputs, 2 * width, 1, stride, bias=False)))

    def forward(self, values: Tensor) -> Tensor:
        """Values of shape (b, c, h, w)."""
        return functional.relu(self.layers(values) + self.shortcut(values))


def resnext11(*, groups: int = 2, width: int = 16) -> nn.Module:
    """ResNeXt of three stages with one block each: 3 x 3 + 2 = 11 layers; the width doubles with each stage."""
    first = groups * width
    return nn.Sequential(
        *_normalised(nn.Conv2d(3, 64, 1, bias=False)),
        nn.ReLU(),
        Grouped(64, first, groups=groups, stride=1),
        Grouped(2 * first, 2 * first, groups=groups, stride=2),
        Grouped(4 * first, 4 * first, groups=groups, stride=2),
        nn.AvgPool2d(8),
        nn.Flatten(),
        nn.Linear(8 * first, CLASSES),
    )


class Pyramidal(nn.Module):
    """PyramidNet's block: norms around two convolutions, one ReLU, and a shortcut that zeros widen."""

    def __init__(self, inputs: int, outputs: int, *, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs),
            *_normalised(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)),
            nn.ReLU(inplace=True),
            *_normalised(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)),
        )
        self.shortcut: nn.Module = nn.AvgPool2d(2) if stride == 2 else nn.Identity()
        self.added = outputs - inputs

    def forward(self, values: Tensor) -> Tensor:
        """Values of shape (b, c, h, w)."""
        widened = functional.pad(self.shortcut(values), (0, 0, 0, 0, 0, self.added))
        result: Tensor = self.layers(values) + widened
        return result


def pyramidnet(depth: int, alpha: int) -> nn.Module:
    """PyramidNet of 6 n + 2 layers; the width grows by alpha / 3 n with every block, from 16."""
    blocks = (depth - 2) // 6
    widths = [round(16 + alpha * i / (3 * blocks)) for i in range(3 * blocks + 1)]
    layers: list[nn.Module] = [*_normalised(_stem(16))]
    for i in range(3 * blocks):
        stride = 2 if i in {blocks, 2 * blocks} else 1
        layers.append(Pyramidal(widths[i], widths[i + 1], stride=stride))
    last = widths[-1]
    head = (nn.BatchNorm2d(last), nn.ReLU(inplace=True), nn.AvgPool2d(8), nn.Flatten(), nn.Linear(last, CLASSES))
    return nn.Sequential(*layers, *head)


def _stem(outputs: int) -> nn.Conv2d:
    return nn.Conv2d(3, outputs, 3, padding=1, bias=False)


def _normalised(layer: nn.Conv2d) -> tuple[nn.Module, nn.Module]:
    return layer, nn.BatchNorm2d(layer.out_channels)
