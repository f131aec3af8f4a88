"""The networks of MISO's training programs (`mps/models/*_train.py`, TensorFlow 2 with Keras), written in PyTorch.

Layers, sizes and biases are those of Keras; so is what it makes of several operators where PyTorch has one: attention.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional


def resnet50(classes: int) -> nn.Module:
    """Return ResNet-50 as Keras has it: strides in the first 1 x 1 convolutions, and biases in all of them."""
    model = torchvision.models.resnet50(num_classes=classes)
    for stage in (model.layer2, model.layer3, model.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.bias = nn.Parameter(torch.zeros(module.out_channels))
    return model


def mobilenet_v2(classes: int) -> nn.Module:
    """Return MobileNetV2 with one layer behind its last convolution, without dropout."""
    return nn.Sequential(torchvision.models.mobilenet_v2().features, nn.Flatten(), nn.Linear(1280, classes))


class Attention(nn.Module):
    """Keras' MultiHeadAttention of a sequence with itself: products, softmax and dropout one by one."""

    def __init__(self, width: int, heads: int, head_width: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, heads * head_width) for _ in range(3))
        self.output, self.dropout = nn.Linear(heads * head_width, width), nn.Dropout(dropout)

    def forward(self, values: Tensor) -> Tensor:
        """Values of shape (b, t, c)."""
        query, key, value = (
            part(values).unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(2, 3)
        mixed = self.dropout(scores.softmax(dim=-1)) @ value
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result


class SeriesBlock(nn.Module):
    """One encoder block over a series of one number a step."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.dropout = Attention(1, 4, 256, 0.25), nn.Dropout(0.25)
        self.first, self.second = nn.LayerNorm(1, eps=1e-6), nn.LayerNorm(1, eps=1e-6)
        self.wide, self.narrow = nn.Conv1d(1, 4, 1), nn.Conv1d(4, 1, 1)

    def forward(self, values: Tensor) -> Tensor:
        """Values of shape (b, t, 1)."""
        middle = values + self.first(self.dropout(self.attention(values)))
        inner = self.dropout(functional.relu(self.wide(middle.transpose(1, 2))))
        result: Tensor = middle + self.second(self.narrow(inner).transpose(1, 2))
        return result


def series_transformer(steps: int) -> nn.Module:
    """Return four blocks, the mean over channels, and two layers: FordA's two classes."""
    blocks = [SeriesBlock() for _ in range(4)]
    return nn.Sequential(*blocks, Mean(2), nn.Linear(steps, 128), nn.ReLU(), nn.Dropout(0.4), nn.Linear(128, 2))


class Mean(nn.Module):
    """Keras' global average pooling."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, values: Tensor) -> Tensor:
        """Values of any shape that has the axis."""
        return values.mean(dim=self.axis)


class WordConvolutions(nn.Module):
    """Fixed word vectors of 100, three convolutions of 5, two layers: 20 newsgroups."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20_002, 100).requires_grad_(requires_grad=False)
        layers: list[nn.Module] = []
        for inputs in (100, 128):
            layers += [nn.Conv1d(inputs, 128, 5), nn.ReLU(), nn.MaxPool1d(5)]
        self.layers = nn.Sequential(*layers, nn.Conv1d(128, 128, 5), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 20))

    def forward(self, words: Tensor) -> Tensor:
        """Logits of shape (b, 20) for words of shape (b, 200)."""
        logits: Tensor = self.head(self.layers(self.embedding(words).transpose(1, 2)).amax(dim=2))
        return logits


class DeepSpeech(nn.Module):
    """Two convolutions over a spectrogram, five GRU layers of 512 each way, two layers: Keras' DeepSpeech 2."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 32, (11, 41), (2, 2), (5, 20), bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 32, (11, 21), (1, 2), (5, 10), bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.recurrent = nn.GRU(49 * 32, 512, 5, bidirectional=True, batch_first=True, dropout=0.5)
        self.head = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Dropout(0.5), nn.Linear(1024, 32))

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Probabilities of shape (b, t / 2, 32) for a spectrogram of shape (b, t, 193)."""
        seen = self.convolutions(spectrogram.unsqueeze(1))
        probabilities: Tensor = self.head(self.recurrent(seen.transpose(1, 2).flatten(2))[0]).softmax(dim=-1)
        return probabilities


class MessagePassing(nn.Module):
    """Four steps in which atoms hear of their neighbours, weighted by a network over the bonds between them."""

    def __init__(self, bond_width: int, units: int) -> None:
        super().__init__()
        self.units = units
        self.bonds, self.update = nn.Linear(bond_width, units * units), nn.GRUCell(units, units)

    def forward(self, atoms: Tensor, bonds: Tensor, pairs: Tensor) -> Tensor:
        """Atoms of shape (n, 29), bonds of shape (e, 7), pairs of positions of atoms of shape (e, 2)."""
        atoms = functional.pad(atoms, (0, self.units - atoms.shape[1]))
        for _ in range(4):
            weights = self.bonds(bonds).view(-1, self.units, self.units)
            heard = (weights @ atoms.index_select(0, pairs[:, 1]).unsqueeze(2)).squeeze(2)
            atoms = self.update(torch.zeros_like(atoms).index_add(0, pairs[:, 0], heard), atoms)
        return atoms


class MoleculeNetwork(nn.Module):
    """Message passing, then one encoder block over the atoms of each molecule, all filled up to the largest."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes
        self.messages, self.attention = MessagePassing(7, 64), Attention(64, 8, 64, 0.0)
        self.dense = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64))
        self.first, self.second = nn.LayerNorm(64, eps=1e-3), nn.LayerNorm(64, eps=1e-3)
        self.head = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1), nn.Sigmoid())

    def forward(self, atoms: Tensor, bonds: Tensor, pairs: Tensor) -> Tensor:
        """Probabilities of shape (b, 1); arguments as of `MessagePassing`."""
        parts = self.messages(atoms, bonds, pairs).split(self.sizes)
        most = max(self.sizes)
        filled = torch.stack([functional.pad(part, (0, 0, 0, most - len(part))) for part in parts])
        filled.sum((1, 2)).ne(0)
        seen = self.first(filled + self.attention(filled))
        probabilities: Tensor = self.head(self.second(seen + self.dense(seen)).mean(dim=1))
        return probabilities


def generator() -> nn.Sequential:
    """Return CycleGAN's generator: down twice, nine residual blocks, up twice by transposed convolutions."""
    return nn.Sequential(
        nn.ReflectionPad2d(3),
        *_normed(nn.Conv2d(3, 64, 7, bias=False)),
        *_normed(nn.Conv2d(64, 128, 3, 2, 1, bias=False)),
        *_normed(nn.Conv2d(128, 256, 3, 2, 1, bias=False)),
        *(Residual(256) for _ in range(9)),
        *_normed(nn.ConvTranspose2d(256, 128, 3, 2, 1, 1, bias=False)),
        *_normed(nn.ConvTranspose2d(128, 64, 3, 2, 1, 1, bias=False)),
        nn.ReflectionPad2d(3),
        nn.Conv2d(64, 3, 7),
        nn.Tanh(),
    )


class Residual(nn.Module):
    """Two convolutions over mirrored borders, beside their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first, second = ([nn.ReflectionPad2d(1), *_normed(nn.Conv2d(width, width, 3, bias=False))] for _ in range(2))
        self.layers = nn.Sequential(*first, *second[:-1])

    def forward(self, values: Tensor) -> Tensor:
        """Values of shape (b, c, h, w)."""
        result: Tensor = values + self.layers(values)
        return result


def discriminator() -> nn.Sequential:
    """Return CycleGAN's discriminator: a verdict for each of 32 x 32 patches."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2)]
    for inputs, stride in ((64, 2), (128, 2), (256, 1)):
        border = (1, 1, 1, 1) if stride == 2 else (1, 2, 1, 2)
        convolution = nn.Conv2d(inputs, 2 * inputs, 4, stride, bias=False)
        layers += [nn.ZeroPad2d(border), *_normed(convolution, nn.LeakyReLU(0.2))]
    return nn.Sequential(*layers, nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(512, 1, 4))


def _normed(convolution: Any, activation: nn.Module | None = None) -> list[nn.Module]:
    return [convolution, nn.InstanceNorm2d(convolution.out_channels, affine=True), activation or nn.ReLU()]


def cyclegan(batch_size: int) -> Any:
    """Return a step of Keras' example: one forward pass, then the gradients of each of four networks in turn."""
    there, back, judge_a, judge_b = generator(), generator(), discriminator(), discriminator()
    networks = [there, back, judge_a, judge_b]
    optimizers = [torch.optim.Adam(network.parameters(), lr=2e-4, betas=(0.5, 0.999)) for network in networks]

    def step(a: Tensor, b: Tensor) -> None:
        made_b, made_a = there(a), back(b)
        cycled_a, cycled_b = back(made_b), there(made_a)
        same_a, same_b = back(a), there(b)
        real_a, fake_a, real_b, fake_b = judge_a(a), judge_a(made_a), judge_b(b), judge_b(made_b)
        losses = [
            _from(fake_b, 1) + 10 * functional.l1_loss(b, cycled_b) + 5 * functional.l1_loss(b, same_b),
            _from(fake_a, 1) + 10 * functional.l1_loss(a, cycled_a) + 5 * functional.l1_loss(a, same_a),
            (_from(real_a, 1) + _from(fake_a, 0)) * 0.5,
            (_from(real_b, 1) + _from(fake_b, 0)) * 0.5,
        ]
        for network, loss in zip(networks, losses, strict=True):
            weights = list(network.parameters())
            for weight, gradient in zip(weights, torch.autograd.grad(loss, weights, retain_graph=True), strict=True):
                weight.grad = gradient
        for optimizer in optimizers:
            optimizer.step()

    images = (torch.empty(batch_size, 3, 256, 256), torch.empty(batch_size, 3, 256, 256))
    return {"modules": networks, "inputs": images, "step": step}


def _from(verdict: Tensor, wanted: int) -> Tensor:
    return functional.mse_loss(verdict, torch.full_like(verdict, wanted))


def trained(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    loss: Callable[[Any], Tensor],
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = torch.optim.Adam,
) -> Any:
    """Return a step of Keras' `fit`: forward pass, loss, backward pass, optimizer."""
    model.train()
    sweep = optimizer(weight for weight in model.parameters() if weight.requires_grad)

    def step(*values: Tensor) -> None:
        sweep.zero_grad()
        loss(model(*values)).backward()
        sweep.step()

    return {"modules": [model], "inputs": inputs, "step": step}


def classified(batch_size: int) -> Callable[[Tensor], Tensor]:
    """Return the loss of a classifier, which counts what was right, too."""
    labels = torch.zeros(batch_size, dtype=torch.long)

    def loss(logits: Tensor) -> Tensor:
        logits.argmax(dim=1).eq(labels).sum()
        return functional.cross_entropy(logits, labels)

    return loss
