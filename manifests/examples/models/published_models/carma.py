"""CARMA's programs (itu-rad/CARMA, `workloads/`): their models, shapes, losses and optimizers.

They train in fp32 with PyTorch's defaults, so convolutions run as TF32; images from four loader workers, text from the
program itself. `resnet50_cifar100.py` makes an EfficientNet-B0, whatever its name says, and so it does here. Attention
is PyTorch's fused operator, as transformers takes it by default for BERT.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn
from torch.nn import functional

from cotenant_predictor.extraction import huggingface

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

TOKENS, VOCABULARY = 512, 28_996
"""Every text is padded to so many tokens, of so many words."""
LANGUAGE_MODELS: Mapping[str, tuple[Mapping[str, int], int]] = MappingProxyType(
    {
        "BERT_base_on_wiki": (
            {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
            32,
        ),
        "BERT_large_on_wiki": (
            {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
            8,
        ),
    }
)
"""What the program says of its model, and its batch size."""


def jobs() -> list[Published]:
    """Every program at every batch size that was measured."""
    return [*_classifiers(), *_language_models()]


def _classifiers() -> list[Published]:
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


def _language_models() -> list[Published]:
    return [
        Published(
            key=f"{program},{batch}",
            name=f"carma-{program.replace('_', '-').lower()}-{batch}",
            build=functools.partial(_build_bert, sizes, batch),
            batch_size=batch,
            optimizer="adamw",
            tf32=True,
            examples=huggingface.EXAMPLES,
        )
        for program, (sizes, batch) in LANGUAGE_MODELS.items()
    ]


def _build_bert(sizes: Mapping[str, int], batch: int) -> tuple[nn.Module, dict[str, Tensor]]:
    model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=VOCABULARY, **sizes))
    names = ("input_ids", "attention_mask", "labels")
    return model, {name: torch.empty(batch, TOKENS, dtype=torch.long) for name in names}


def _build(
    make: Callable[[], nn.Module], edge: int, batch: int
) -> tuple[nn.Module, tuple[Tensor], Callable[[Any], Any]]:
    labels = torch.empty(batch, dtype=torch.long)
    return make(), (torch.empty(batch, 3, edge, edge),), lambda output: functional.cross_entropy(output, labels)
