"""Zeus' training jobs whose programs are public (ml-energy/zeus, `examples/cifar100` and `examples/imagenet`).

They train in fp32 with PyTorch's defaults, so convolutions run as TF32 where a GPU has it; images come from four loader
workers, by the programs' default.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional

from .jobs import Published

LOADER_WORKERS = 4
CIFAR, IMAGENET = 32, 224


def shufflenet_v2() -> nn.Module:
    """Return ShuffleNetV2 for images of 32 x 32: stride 1 in the stem and no pooling behind it."""
    model = torchvision.models.shufflenet_v2_x1_0(num_classes=100)
    model.conv1[0] = nn.Conv2d(3, 24, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


POWERS = tuple(2**power for power in range(3, 14))
PROGRAMS: Mapping[str, tuple[Callable[[], nn.Module], int, Mapping[str, tuple[int, ...]]]] = MappingProxyType(
    {
        "shufflenetv2": (shufflenet_v2, CIFAR, {"adadelta": POWERS, "adam": POWERS[:-1]}),
        "resnet50": (torchvision.models.resnet50, IMAGENET, {"adadelta": (8, 16, 32, 64, 128, 192, 256, 360, 512)}),
    }
)
"""By the network's name in the tables: model, edge of its images, and the batch sizes of each optimizer."""


def jobs() -> list[Published]:
    """Return every program with every optimizer at every batch size that was measured on any GPU."""
    return [
        Published(
            key=f"{program},{batch},{optimizer}",
            name=f"zeus-{program}-{batch}-{optimizer}",
            build=functools.partial(_build, make, edge, batch),
            batch_size=batch,
            optimizer=optimizer,
            workers=LOADER_WORKERS,
            tf32=True,
        )
        for program, (make, edge, optimizers) in PROGRAMS.items()
        for optimizer, batches in optimizers.items()
        for batch in batches
    ]


def _build(
    make: Callable[[], nn.Module], edge: int, batch: int
) -> tuple[nn.Module, tuple[Tensor], Callable[[Any], Any]]:
    labels = torch.empty(batch, dtype=torch.long)
    return make(), (torch.empty(batch, 3, edge, edge),), lambda output: functional.cross_entropy(output, labels)
