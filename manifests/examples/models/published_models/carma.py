"""CARMA's image classifiers (itu-rad/CARMA, `workloads/`): models, image sizes, losses and optimizers of its programs.

They train in fp32 with PyTorch's defaults, so convolutions run as TF32, from four loader workers.
`resnet50_cifar100.py` makes an EfficientNet-B0, whatever its name says, and so it does here.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import timm
import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional

from .jobs import Published

BATCHES = (32, 64, 128)
LOADER_WORKERS = 4
IMAGENET, LARGE, CIFAR = 224, 299, 32

_small = functools.partial(timm.create_model, num_classes=100)

PROGRAMS: Mapping[str, tuple[Callable[[], nn.Module], int, str]] = MappingProxyType(
    {
        "efficientNet_cifar100": (functools.partial(_small, "efficientnet_b0"), CIFAR, "adamw"),
        "efficientNet": (torchvision.models.efficientnet_b0, IMAGENET, "adam"),
        "Inception": (
            functools.partial(torchvision.models.inception_v3, aux_logits=False, init_weights=False),
            LARGE,
            "adam",
        ),
        "mobilenet_cifar100": (functools.partial(_small, "mobilenetv3_small_100"), CIFAR, "adamw"),
        "mobilenet": (torchvision.models.mobilenet_v2, IMAGENET, "adam"),
        "resnet18_cifar100": (functools.partial(_small, "resnet18"), CIFAR, "adamw"),
        "resnet34_cifar100": (functools.partial(_small, "resnet34"), CIFAR, "adamw"),
        "resnet50_cifar100": (functools.partial(_small, "efficientnet_b0"), CIFAR, "adamw"),
        "resnet50": (torchvision.models.resnet50, IMAGENET, "adam"),
        "vgg": (torchvision.models.vgg16, IMAGENET, "adam"),
        "Xception": (functools.partial(timm.create_model, "legacy_xception"), IMAGENET, "adam"),
    }
)
"""By the name in the measured table: model, edge of its images, optimizer."""


def jobs() -> list[Published]:
    """Every program at every batch size that was measured."""
    return [
        Published(
            key=f"{program},{batch}",
            name=f"carma-{program.replace('_', '-').lower()}-{batch}",
            build=functools.partial(_build, make, edge, batch),
            batch_size=batch,
            optimizer=optimizer,
            workers=LOADER_WORKERS,
            tf32=True,
        )
        for program, (make, edge, optimizer) in PROGRAMS.items()
        for batch in BATCHES
    ]


def _build(
    make: Callable[[], nn.Module], edge: int, batch: int
) -> tuple[nn.Module, tuple[Tensor], Callable[[Any], Any]]:
    labels = torch.empty(batch, dtype=torch.long)
    return make(), (torch.empty(batch, 3, edge, edge),), lambda output: functional.cross_entropy(output, labels)
