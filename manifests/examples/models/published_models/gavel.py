"""The 26 jobs of the gavel set, as its job table starts them: PyTorch of 2020, fp32, one GPU.

Written from the public training scripts. What those leave to the data is declared here, each beside its reason.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional

from . import cyclegan, reinforcement, translation
from .jobs import Published

WIKITEXT2_WORDS = 33_278
ML20M_FILMS, ML20M_USERS = 20_108, 116_677
"""Films and training users that are left where ratings of 4 and more count as watched."""
FILMS_IN_BATCH = {512: 3_600, 1024: 4_900, 2048: 6_400, 4096: 8_200, 8192: 10_100}
"""Distinct films of so many users; expected where films' counts are lognormal with median 15 and mean 500."""


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, values: Tensor) -> Tensor:
        """Values of shape (b, c, h, w)."""
        return functional.relu(self.second(self.first(values)) + self.shortcut(values))


def small_resnet18() -> nn.Sequential:
    """ResNet-18 for images of 32 x 32: no pooling at the stem."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    for inputs, outputs, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)]
    return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(512, 10))


def image(build: Callable[[], nn.Module], batch_size: int, *, size: int) -> Any:
    """A classifier's step with momentum SGD, and the count of what it got right."""
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    labels = torch.zeros(batch_size, dtype=torch.long)

    def step(images: Tensor) -> None:
        optimizer.zero_grad()
        output = model(images)
        functional.cross_entropy(output, labels).backward()
        optimizer.step()
        output.max(1)[1].eq(labels).sum()

    return {"modules": [model], "inputs": torch.empty(batch_size, 3, size, size), "step": step}


class WordModel(nn.Module):
    """Embedding, two LSTM layers and a softmax, 200 wide."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(WIKITEXT2_WORDS, 200), nn.Dropout(0.2)
        self.lstm, self.head = nn.LSTM(200, 200, 2, dropout=0.2), nn.Linear(200, WIKITEXT2_WORDS)

    def forward(self, words: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
        """Logits for words of shape (t, b)."""
        logits: Tensor = self.head(self.dropout(self.lstm(self.dropout(self.embedding(words)), state)[0]))
        return logits


def clip(model: nn.Module) -> None:
    """Scale gradients to a norm, tensor by tensor as PyTorch did then."""
    gradients = [weight.grad for weight in model.parameters()]
    scale = 0.25 / torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_(scale)


def language(batch_size: int) -> Any:
    """35 words a sample; samples are cut out of a corpus that lies on the GPU, one by one."""
    model = WordModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=20.0)
    corpus = torch.zeros(60_000, batch_size, dtype=torch.long)
    state = (torch.zeros(2, batch_size, 200), torch.zeros(2, batch_size, 200))

    def cut(start: int) -> Tensor:
        samples = [torch.cat([corpus[start : start + 35, i], corpus.new_zeros(0)]) for i in range(batch_size)]
        return torch.stack(samples).t()

    def step(_: Tensor) -> None:
        words, following = cut(0), cut(1)
        model.zero_grad()
        output = model(words, state)
        functional.cross_entropy(output.view(-1, WIKITEXT2_WORDS), following.flatten()).backward()
        clip(model)
        optimizer.step()

    return {"modules": [model], "inputs": corpus[:36], "step": step}


class Autoencoder(nn.Module):
    """One hidden layer of 200 between the films that a batch of users has watched."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(ML20M_FILMS, 200), nn.Embedding(ML20M_FILMS, 200)
        self.hidden, self.output = nn.Parameter(torch.zeros(200)), nn.Parameter(torch.zeros(ML20M_FILMS))

    def forward(self, watched: Tensor, films: Tensor) -> Tensor:
        """Logits for `watched` of shape (b, n) over `films` of shape (n,)."""
        noisy = functional.dropout(functional.normalize(watched, dim=1), 0.5, self.training)
        hidden = torch.tanh(functional.linear(noisy, self.encoder(films).t(), self.hidden))
        return functional.linear(hidden, self.decoder(films), self.output.index_select(0, films))


def recommendation(batch_size: int) -> Any:
    """A batch of users comes as the list of what they watched and is spread out on the GPU."""
    model, films = Autoencoder(), FILMS_IN_BATCH[batch_size]
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=2e-5)
    watched = batch_size * 73  # 8.5 million ratings of 116,677 users
    inputs = (torch.zeros(2, watched, dtype=torch.long), torch.empty(watched), torch.zeros(films, dtype=torch.long))

    def step(places: Tensor, values: Tensor, chosen: Tensor) -> None:
        dense = torch.zeros(batch_size * films).index_add(0, places[0] * films + places[1], values)
        dense = dense.view(batch_size, films)
        optimizer.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(model(dense, chosen), dense, reduction="sum") / batch_size
        loss.backward()
        optimizer.step()

    return {"modules": [model], "inputs": inputs, "step": step}


def jobs() -> list[Published]:
    """All 26, by the names of the set's table."""
    found = [_sized("ResNet-18", functools.partial(image, small_resnet18, size=32), size, workers=2) for size in _UP]
    resnet50 = functools.partial(image, torchvision.models.resnet50, size=224)
    found += [_sized("ResNet-50", resnet50, size, workers=8) for size in _UP[:-1]]
    found += [_sized("Transformer", translation.job, size, workers=2) for size in _UP]
    found += [_sized("LM", language, size, data_on_gpu=True) for size in (5, 10, 20, 40, 80)]
    found += [_sized("Recommendation", recommendation, size, workers=8) for size in FILMS_IN_BATCH]
    found.append(Published("CycleGAN", "gavel-cyclegan", cyclegan.job, 1, optimizer="adam", workers=4))
    found.append(Published("A3C", "gavel-a3c", reinforcement.job, reinforcement.FRAMES))
    return found


_UP = (16, 32, 64, 128, 256)


def _sized(family: str, build: Callable[[int], Any], size: int, **feed: Any) -> Published:
    name = f"gavel-{family.lower()}-{size}"
    return Published(f"{family} (batch size {size})", name, functools.partial(build, size), size, **feed)
