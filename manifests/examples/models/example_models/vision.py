"""Image models: classification, segmentation, a U-Net and a GAN."""

import itertools
from typing import Any

import torch
import torchvision
import transformers
from torch import Tensor, nn
from torch.nn import functional


def classifier(batch_size: int, *, architecture: str, size: int = 224) -> tuple[nn.Module, Tensor, Any]:
    """An ImageNet classifier of torchvision, with cross entropy on the labels."""
    labels = torch.zeros(batch_size, dtype=torch.long)
    model = torchvision.models.get_model(architecture)
    return model, torch.empty(batch_size, 3, size, size), lambda output: functional.cross_entropy(output, labels)


def segmenter(batch_size: int, *, architecture: str, size: int = 520) -> tuple[nn.Module, Tensor, Any]:
    """A semantic segmentation model of torchvision with the 21 classes of Pascal VOC."""
    labels = torch.zeros(batch_size, size, size, dtype=torch.long)
    model = torchvision.models.get_model(architecture, weights_backbone=None)
    return model, torch.empty(batch_size, 3, size, size), lambda output: functional.cross_entropy(output["out"], labels)


def yolos(batch_size: int) -> tuple[nn.Module, dict[str, Tensor]]:
    """YOLOS-tiny, object detection by a vision transformer."""
    config = transformers.YolosConfig(
        hidden_size=192, num_attention_heads=3, intermediate_size=768, image_size=[512, 864]
    )
    return transformers.YolosForObjectDetection(config), {"pixel_values": torch.empty(batch_size, 3, 512, 864)}


class UNet(nn.Module):
    """The U-Net of Ronneberger, Fischer and Brox (2015), padded, with batch normalisation: 31 million parameters."""

    def __init__(
        self, *, channels: int = 3, classes: int = 2, widths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    ) -> None:
        super().__init__()
        inputs = (channels, *widths[:-1])
        self.down = nn.ModuleList(_double(i, o) for i, o in zip(inputs, widths, strict=True))
        backwards = tuple(reversed(widths))
        pairs = tuple(itertools.pairwise(backwards))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in pairs)
        self.merge = nn.ModuleList(_double(i, o) for i, o in pairs)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Logits per pixel; sides must be multiples of 16."""
        kept = []
        for index, block in enumerate(self.down):
            image = block(image if index == 0 else functional.max_pool2d(image, 2))
            kept.append(image)
        kept.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            image = merge(torch.cat([kept.pop(), up(image)], dim=1))
        result: Tensor = self.head(image)
        return result


def unet(batch_size: int, *, size: int = 256) -> tuple[nn.Module, Tensor, Any]:
    """U-Net on square images with two classes."""
    labels = torch.zeros(batch_size, size, size, dtype=torch.long)
    return UNet(), torch.empty(batch_size, 3, size, size), lambda output: functional.cross_entropy(output, labels)


def dcgan(batch_size: int, *, latent: int = 100, width: int = 64) -> dict[str, Any]:
    """The DCGAN of Radford, Metz and Chintala (2016) at 64 x 64: a step of each network."""
    generator, discriminator = _generator(latent, width), _discriminator(width)
    settings = {"lr": 2e-4, "betas": (0.5, 0.999)}
    generator_optimizer = torch.optim.Adam(generator.parameters(), **settings)
    discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), **settings)

    def step(images: Tensor) -> None:
        real, fake = torch.ones(batch_size), torch.zeros(batch_size)
        discriminator_optimizer.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(discriminator(images).view(-1), real)
        loss.backward()
        made = generator(torch.randn(batch_size, latent, 1, 1))
        loss = functional.binary_cross_entropy_with_logits(discriminator(made.detach()).view(-1), fake)
        loss.backward()
        discriminator_optimizer.step()
        generator_optimizer.zero_grad()
        functional.binary_cross_entropy_with_logits(discriminator(made).view(-1), real).backward()
        generator_optimizer.step()

    return {"modules": [generator, discriminator], "inputs": torch.empty(batch_size, 3, 64, 64), "step": step}


def _double(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in (inputs, outputs):
        layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def _generator(latent: int, width: int) -> nn.Sequential:
    widths = (latent, 8 * width, 4 * width, 2 * width, width)
    layers: list[nn.Module] = []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        stride, padding = (1, 0) if index == 0 else (2, 1)
        layers += [
            nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


def _discriminator(width: int) -> nn.Sequential:
    widths = (3, width, 2 * width, 4 * width, 8 * width)
    layers: list[nn.Module] = []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        layers.append(nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False))
        if index > 0:
            layers.append(nn.BatchNorm2d(outputs))
        layers.append(nn.LeakyReLU(0.2, inplace=True))
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4, 1, 0, bias=False))
