"""The job mix of Horus (Yeung et al., HotCloud'20), as far as its Table 1 and the repositories it names describe it.

Training steps in fp32. Image classifiers on CIFAR-10 as pytorch-cifar's script trains them: momentum SGD, two loader
workers. What the paper leaves open is declared here, each beside its reason. It does not say which models came from
torchvision and which from pytorch-cifar, and that decides their FLOPs: `jobs` has pytorch-cifar's where it has the
model, `jobs_of_torchvision` torchvision's where that has it.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import resnet

from . import gavel
from . import horus_networks as networks
from .jobs import Published

IMAGE_BATCHES, TEXT_BATCHES = (64, 128, 256, 512), (16, 32, 64)
LENGTH, WORDS = 200, 10_000
LOADER_WORKERS = 2

NETWORKS: Mapping[str, Callable[[], nn.Module]] = MappingProxyType(
    {
        "MobileNetV2": networks.mobilenet_v2,
        "ResNet-18": functools.partial(networks.resnet_of, resnet.BasicBlock, [2, 2, 2, 2]),
        "ResNet-34": functools.partial(networks.resnet_of, resnet.BasicBlock, [3, 4, 6, 3]),
        "ResNet-50": functools.partial(networks.resnet_of, resnet.Bottleneck, [3, 4, 6, 3]),
        "ResNet-18-bottleneck": functools.partial(networks.resnet_of, resnet.Bottleneck, [2, 2, 2, 2]),
        "GoogLeNet": networks.inception,
        "VGG-19": networks.vgg19,
        "ResNeXt-11-2x16": networks.resnext11,
        # torchvision alone has it, so it is torchvision's, with its early strides.
        "SqueezeNet-1.0": functools.partial(torchvision.models.squeezenet1_0, num_classes=networks.CLASSES),
        **{f"DenseNet-{n}": functools.partial(networks.densenet, f"densenet{n}") for n in (121, 161, 169)},
        **{
            f"ShuffleNetV2-{size}": functools.partial(
                networks.shufflenet_v2, f"shufflenet_v2_x{size.replace('.', '_')}"
            )
            for size in ("0.5", "1.0", "2.0")
        },
        # torchvision alone has it, too.
        **{
            f"MNASNet-{size}": functools.partial(
                torchvision.models.get_model, f"mnasnet{size.replace('.', '_')}", num_classes=networks.CLASSES
            )
            for size in ("0.5", "1.0", "1.3")
        },
        # The table calls 48 and 84 depths. No PyramidNet has them; the paper of [51] has both as alpha of depth 110.
        **{f"PyramidNet-110-a{alpha}": functools.partial(networks.pyramidnet, 110, alpha) for alpha in (48, 84)},
    }
)
"""Every image classifier, by the name that manifests use."""

UNALTERED: Mapping[str, Callable[[], nn.Module]] = MappingProxyType(
    {
        "ResNet-18-bottleneck": functools.partial(
            resnet.ResNet, resnet.Bottleneck, [2, 2, 2, 2], num_classes=networks.CLASSES
        ),
        "GoogLeNet": functools.partial(
            torchvision.models.GoogLeNet, networks.CLASSES, aux_logits=False, init_weights=False
        ),
        **{
            name: functools.partial(torchvision.models.get_model, architecture, num_classes=networks.CLASSES)
            for name, architecture in {
                "MobileNetV2": "mobilenet_v2",
                "VGG-19": "vgg19",
                **{f"ResNet-{n}": f"resnet{n}" for n in (18, 34, 50)},
                **{f"DenseNet-{n}": f"densenet{n}" for n in (121, 161, 169)},
                **{f"ShuffleNetV2-{n}": f"shufflenet_v2_x{n.replace('.', '_')}" for n in ("0.5", "1.0", "2.0")},
            }.items()
        },
    }
)
"""torchvision's own definitions, made for 224 x 224: on 32 x 32 the last layers see one pixel."""


class LanguageModel(nn.Module):
    """The medium model of Zaremba et al. (2014), which has these 10,000 words: two LSTM layers, 650 wide."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(WORDS, 650), nn.Dropout(0.5)
        self.lstm, self.head = nn.LSTM(650, 650, 2, dropout=0.5, batch_first=True), nn.Linear(650, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """Logits of shape (b * n, words)."""
        logits: Tensor = self.head(self.dropout(self.lstm(self.dropout(self.embedding(words)))[0]))
        return logits.flatten(0, 1)


class TextClassifier(nn.Module):
    """Word vectors of 300, an LSTM of 300 each way, whose last states a layer sorts into two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(WORDS, 300), nn.Dropout(0.5)
        self.lstm, self.head = nn.LSTM(300, 300, bidirectional=True, batch_first=True), nn.Linear(600, 2)

    def forward(self, words: Tensor) -> Tensor:
        """Logits of shape (b, 2)."""
        last = self.lstm(self.dropout(self.embedding(words)))[1][0]
        logits: Tensor = self.head(self.dropout(torch.cat([last[0], last[1]], dim=1)))
        return logits


def language_model(batch_size: int) -> Any:
    """Sentences of one length, so that none is filled up; a step with SGD and gradients scaled to a norm."""
    model = LanguageModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def step(words: Tensor, following: Tensor) -> None:
        model.zero_grad()
        functional.cross_entropy(model(words), following.flatten()).backward()
        gavel.clip(model)
        optimizer.step()

    words = torch.zeros(batch_size, LENGTH, dtype=torch.long)
    return {"modules": [model], "inputs": (words, words.clone()), "step": step}


def text_classifier(batch_size: int) -> Any:
    """Sentences of one length; a step with Adam, and the count of what it got right."""
    model = TextClassifier()
    optimizer = torch.optim.Adam(model.parameters())

    def step(words: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad()
        output = model(words)
        functional.cross_entropy(output, labels).backward()
        optimizer.step()
        output.max(1)[1].eq(labels).sum()

    inputs = (torch.zeros(batch_size, LENGTH, dtype=torch.long), torch.zeros(batch_size, dtype=torch.long))
    return {"modules": [model], "inputs": inputs, "step": step}


def jobs() -> list[Published]:
    """Every model with every batch size, also what a GPU of 8 GiB cannot hold."""
    texts: dict[str, Callable[[int], Any]] = {"LSTM-LM": language_model, "LSTM-classifier": text_classifier}
    return [_image(name, build, batch) for name, build in NETWORKS.items() for batch in IMAGE_BATCHES] + [
        _sized(name, build, batch) for name, build in texts.items() for batch in TEXT_BATCHES
    ]


def jobs_of_torchvision() -> list[Published]:
    """The same keys in the same order; torchvision's definition wherever there is one."""
    own = {
        job.key: job
        for name, build in UNALTERED.items()
        for batch in IMAGE_BATCHES
        for job in [_image(name, build, batch, prefix="horus-tv")]
    }
    return [own.get(job.key, job) for job in jobs()]


def _image(model: str, build: Callable[[], nn.Module], batch: int, *, prefix: str = "horus") -> Published:
    job = functools.partial(gavel.image, build, size=32)
    return _sized(model, job, batch, prefix=prefix, workers=LOADER_WORKERS)


def _sized(
    model: str, build: Callable[[int], Any], batch: int, *, prefix: str = "horus", workers: int = 0
) -> Published:
    name = f"{prefix}-{model.lower()}-b{batch}"
    return Published(f"{model} (batch size {batch})", name, functools.partial(build, batch), batch, workers=workers)
