"""CycleGAN of Zhu et al. (2017) on 256 x 256 images, a pair a step: two generators, two discriminators."""

import itertools
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """Two convolutions beside their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_convolved(width, width, 3, mirrored=1), *_convolved(width, width, 3, mirrored=1))
        del self.layers[-1]

    def forward(self, values: Tensor) -> Tensor:
        """Values of shape (b, c, h, w)."""
        result: Tensor = values + self.layers(values)
        return result


def generator() -> nn.Sequential:
    """Down twice, nine residual blocks, up twice."""
    return nn.Sequential(
        *_convolved(3, 64, 7, mirrored=3),
        *_convolved(64, 128, 3, stride=2, padding=1),
        *_convolved(128, 256, 3, stride=2, padding=1),
        *(Residual(256) for _ in range(9)),
        nn.Upsample(scale_factor=2),
        *_convolved(256, 128, 3, padding=1),
        nn.Upsample(scale_factor=2),
        *_convolved(128, 64, 3, padding=1),
        nn.ReflectionPad2d(3),
        nn.Conv2d(64, 3, 7),
        nn.Tanh(),
    )


def discriminator() -> nn.Sequential:
    """A verdict for each of 16 x 16 patches."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise((3, 64, 128, 256, 512)):
        norm = [nn.InstanceNorm2d(outputs)] if inputs > 3 else []
        layers += [nn.Conv2d(inputs, outputs, 4, 2, 1), *norm, nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.ZeroPad2d((1, 0, 1, 0)), nn.Conv2d(512, 1, 4, padding=1))


def job() -> Any:
    """A step of the generators, then one of each discriminator."""
    there, back, judge_a, judge_b = generator(), generator(), discriminator(), discriminator()
    of_generators = _adam(itertools.chain(there.parameters(), back.parameters()))
    judges = [(judge_a, _adam(judge_a.parameters())), (judge_b, _adam(judge_b.parameters()))]

    def step(a: Tensor, b: Tensor) -> None:
        valid, fake = torch.ones(1, 1, 16, 16), torch.zeros(1, 1, 16, 16)
        of_generators.zero_grad()
        identity = (functional.l1_loss(back(a), a) + functional.l1_loss(there(b), b)) / 2
        made_b, made_a = there(a), back(b)
        fooled = (functional.mse_loss(judge_b(made_b), valid) + functional.mse_loss(judge_a(made_a), valid)) / 2
        cycle = (functional.l1_loss(back(made_b), a) + functional.l1_loss(there(made_a), b)) / 2
        (fooled + 10.0 * cycle + 5.0 * identity).backward()
        of_generators.step()
        for (judge, optimizer), real, made in zip(judges, (a, b), (made_a, made_b), strict=True):
            optimizer.zero_grad()
            earlier = made.detach().clone()  # from a store of earlier images
            loss = functional.mse_loss(judge(real), valid) + functional.mse_loss(judge(earlier), fake)
            (loss / 2).backward()
            optimizer.step()

    images = (torch.empty(1, 3, 256, 256), torch.empty(1, 3, 256, 256))
    return {"modules": [there, back, judge_a, judge_b], "inputs": images, "step": step}


def _convolved(inputs: int, outputs: int, size: int, *, mirrored: int = 0, **convolution: int) -> list[nn.Module]:
    border: list[nn.Module] = [nn.ReflectionPad2d(mirrored)] if mirrored else []
    layers = [nn.Conv2d(inputs, outputs, size, **convolution), nn.InstanceNorm2d(outputs), nn.ReLU(inplace=True)]
    return border + layers


def _adam(parameters: Iterable[Tensor]) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, lr=2e-4, betas=(0.5, 0.999))
