"""Alnair's training jobs (CentaurusInfra/alnair, `open-data/gpu-sharing`): TensorFlow's programs, in fp32 on a P100.

Image classifiers are frozen but for their last layer; so is the encoder of the segmentation. Small BERTs are trained
whole, on texts of 128 words, which is what their preprocessing gives by default. Not here are NASNet Mobile, of which
neither torchvision nor timm has a definition, and CartPole, whose steps wait for a game on the CPU.
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

from . import miso_networks as networks
from .jobs import Published

SIGNS, TOKENS = 43, 128
BATCHES = (2, 32, 128, 256, 1024)
CLASSIFIERS: Mapping[str, str] = MappingProxyType(
    {
        "MobileNet": "mobilenetv1_100",
        "EfficientNet_v2": "tf_efficientnetv2_s",
        "ResNet50": "resnet50",
        "Inception_v3": "inception_v3",
    }
)
"""timm's names, by those of the table."""
BERTS = ((2, 128), (2, 256), (2, 512), (2, 768), (4, 128), (4, 256), (4, 512))
"""Layers and width of each; a head is 64 wide."""


class Frozen(nn.Module):
    """A network that gives features and learns nothing, below one layer that learns."""

    def __init__(self, features: nn.Module, width: int) -> None:
        super().__init__()
        self.features, self.head = features.requires_grad_(requires_grad=False), nn.Linear(width, SIGNS)

    def train(self, mode: bool = True) -> "Frozen":
        """Leave the features as they are in inference."""
        super().train(mode)
        self.features.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Logits of shape (b, classes)."""
        with torch.no_grad():
            features = self.features(images)
        logits: Tensor = self.head(features)
        return logits


class Segmentation(nn.Module):
    """MobileNetV2 on the way down, frozen; transposed convolutions on the way up, beside what each level passes on."""

    LEVELS = (2, 4, 7, 14)
    """The blocks whose widened input is passed on; none of them has a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.down = torchvision.models.mobilenet_v2().features.requires_grad_(requires_grad=False)
        inputs = (320, 512 + 576, 256 + 192, 128 + 144)
        outputs = (512, 256, 128, 64)
        self.up = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
            for i, o in zip(inputs, outputs, strict=True)
        )
        self.last = nn.ConvTranspose2d(64 + 96, 3, 3, 2, 1, 1)

    def train(self, mode: bool = True) -> "Segmentation":
        """Leave the way down as it is in inference."""
        super().train(mode)
        self.down.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Logits of shape (b, 3, h, w) for images of shape (b, 3, h, w)."""
        with torch.no_grad():
            values, passed = self._passed(images)
        for up in self.up:
            values = torch.cat([up(values), passed.pop()], dim=1)
        logits: Tensor = self.last(values)
        return logits

    def _passed(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        passed, values = [], images
        for number, block in enumerate(self.down[:18]):
            if number in self.LEVELS:
                widened = block.conv[0](values)
                passed.append(widened)
                values = block.conv[1:](widened)
            else:
                values = block(values)
        return values, passed


def jobs() -> list[Published]:
    """Return every job that can be written, by its model and batch size in the table."""
    found = [
        _job(name, batch, functools.partial(_classifier, timm_name, batch))
        for name, timm_name in CLASSIFIERS.items()
        for batch in BATCHES
    ]
    found += [_job("Image Segmentation", batch, functools.partial(_segmentation, batch)) for batch in BATCHES]
    found += [_job("DCGAN", batch, functools.partial(_dcgan, batch)) for batch in (2, 32, 256, 1024)]
    found += [
        _job(f"bert_en_uncased_L-{layers}_H-{width}_A-{width // 64}", 256, functools.partial(_bert, layers, width))
        for layers, width in BERTS
    ]
    return found


def _job(model: str, batch: int, build: Callable[[], Any]) -> Published:
    name = model.lower().replace("_", "-").replace(" ", "-")
    return Published(
        key=f"{model},{batch}",
        name=f"alnair-{name}-{batch}",
        build=build,
        batch_size=batch,
        examples=huggingface.EXAMPLES if "bert" in name else {},
    )


def _classifier(name: str, batch: int) -> Any:
    features = timm.create_model(name, num_classes=0)
    images = torch.empty(batch, 3, 224, 224)
    return networks.trained(Frozen(features, features.num_features), (images,), networks.classified(batch))


def _segmentation(batch: int) -> Any:
    masks = torch.zeros(batch, 128, 128, dtype=torch.long)
    images = torch.empty(batch, 3, 128, 128)
    return networks.trained(Segmentation(), (images,), lambda logits: functional.cross_entropy(logits, masks))


def _bert(layers: int, width: int) -> Any:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": width // 64}
    config = transformers.BertConfig(**sizes, intermediate_size=4 * width, num_labels=1)
    config._attn_implementation = "eager"
    model = transformers.BertForSequenceClassification(config)
    labels = torch.empty(256, 1)
    words, kinds, mask = (torch.zeros(256, TOKENS, dtype=torch.long) for _ in range(3))

    def loss(output: Any) -> Tensor:
        return functional.binary_cross_entropy_with_logits(output.logits, labels)

    return networks.trained(model, (words, mask, kinds), loss, torch.optim.AdamW)


def _dcgan(batch: int) -> Any:
    """Return a step in which generator and discriminator learn from one forward pass."""
    generator = nn.Sequential(
        nn.Linear(100, 7 * 7 * 256, bias=False),
        nn.BatchNorm1d(7 * 7 * 256),
        nn.LeakyReLU(0.3),
        nn.Unflatten(1, (256, 7, 7)),
        nn.ConvTranspose2d(256, 128, 5, 1, 2, bias=False),
        nn.BatchNorm2d(128),
        nn.LeakyReLU(0.3),
        nn.ConvTranspose2d(128, 64, 5, 2, 2, 1, bias=False),
        nn.BatchNorm2d(64),
        nn.LeakyReLU(0.3),
        nn.ConvTranspose2d(64, 1, 5, 2, 2, 1, bias=False),
        nn.Tanh(),
    )
    judge = nn.Sequential(
        nn.Conv2d(1, 64, 5, 2, 2),
        nn.LeakyReLU(0.3),
        nn.Dropout(0.3),
        nn.Conv2d(64, 128, 5, 2, 2),
        nn.LeakyReLU(0.3),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(7 * 7 * 128, 1),
    )
    parts = (generator, judge)
    optimizers = [torch.optim.Adam(part.parameters(), lr=1e-4) for part in parts]
    entropy = functional.binary_cross_entropy_with_logits

    def step(images: Tensor) -> None:
        made = generator(torch.randn(batch, 100))
        real, fake = judge(images), judge(made)
        one, none = torch.ones_like(fake), torch.zeros_like(fake)
        for part, loss in zip(parts, (entropy(fake, one), entropy(real, one) + entropy(fake, none)), strict=True):
            weights = list(part.parameters())
            for weight, gradient in zip(weights, torch.autograd.grad(loss, weights, retain_graph=True), strict=True):
                weight.grad = gradient
        for optimizer in optimizers:
            optimizer.step()

    return {"modules": list(parts), "inputs": torch.empty(batch, 1, 28, 28), "step": step}
