"""Transformers that see and hear: ViT (Dosovitskiy 2020), Whisper (Radford 2022), wav2vec 2.0 (Baevski 2020)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import parts
from .language import Layer


class VisionTransformer(parts.Block):
    """ViT-base on patches of 16 pixels."""

    def __init__(self, *, size: int, width: int = 768, layers: int = 12, classes: int = 1000) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (size // 16) ** 2 + 1, width))
        self.layers = nn.Sequential(*(Layer(width, width // 64, before=True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Logits (b, classes)."""
        patches = self.patches(image).flatten(2).transpose(1, 2)
        patches = torch.cat([self.first.expand(image.shape[0], -1, -1), patches], dim=1)
        logits: Tensor = self.head(self.norm(self.layers(patches + self.positions))[:, 0])
        return logits


class Whisper(parts.Block):
    """Whisper: an encoder of mel spectra, and a decoder that reads all target tokens at once."""

    def __init__(self, *, width: int, layers: int, heads: int, vocabulary: int = 51_865) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(80, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.frames = nn.Parameter(torch.zeros(1500, width))
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(448, width))
        self.encoder = nn.ModuleList(Layer(width, heads, before=True) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(width, heads, before=True, context=True) for _ in range(layers))
        self.encoded_norm, self.decoded_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, spectrum: Tensor, tokens: Tensor) -> Tensor:
        """Logits (b, length, vocabulary) of spectra (b, 80, 3000) and tokens (b, length)."""
        sound = functional.gelu(self.second(functional.gelu(self.first(spectrum)))).transpose(1, 2) + self.frames
        for layer in self.encoder:
            sound = layer(sound)
        sound = self.encoded_norm(sound)
        text = self.words(tokens) + self.positions[: tokens.shape[1]]
        for layer in self.decoder:
            text = layer(text, sound, causal=True)
        return functional.linear(self.decoded_norm(text), self.words.weight)


class SoundTransformer(parts.Block):
    """wav2vec 2.0 base with a head for characters: seven convolutions over the wave, twelve layers."""

    def __init__(self, *, width: int = 768, layers: int = 12, characters: int = 32) -> None:
        super().__init__()
        convolutions: list[nn.Module] = []
        inputs = 1
        for index, (kernel, stride) in enumerate([(10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2]):
            convolutions += [nn.Conv1d(inputs, 512, kernel, stride, bias=False), nn.GELU()]
            if index == 0:
                convolutions.insert(1, nn.GroupNorm(512, 512))
            inputs = 512
        self.convolutions = nn.Sequential(*convolutions)
        self.norm, self.mapping = nn.LayerNorm(512), nn.Linear(512, width)
        self.positions = nn.Conv1d(width, width, 128, padding=64, groups=16)
        self.first_norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(Layer(width, width // 64, before=False) for _ in range(layers)))
        self.head = nn.Linear(width, characters)

    def forward(self, wave: Tensor) -> Tensor:
        """Logits (b, frames, characters) of a wave (b, samples)."""
        sound = self.mapping(self.norm(self.convolutions(wave.unsqueeze(1)).transpose(1, 2)))
        positions = functional.gelu(self.positions(sound.transpose(1, 2))[:, :, :-1]).transpose(1, 2)
        logits: Tensor = self.head(self.layers(self.first_norm(sound + positions)))
        return logits


def vit(batch_size: int, *, training: bool, size: int = 224) -> Any:
    """ViT-B/16."""
    return parts.images(VisionTransformer(size=size), batch_size, training=training, size=size, classes=1000)


def whisper(batch_size: int, *, training: bool, width: int = 768, layers: int = 12, length: int = 64) -> Any:
    """Whisper-small on 30 seconds of sound; inference only."""
    _refuse_training("whisper", training=training)
    inputs = {"spectrum": torch.randn(batch_size, 80, 3000), "tokens": torch.randint(0, 51_865, (batch_size, length))}
    return Whisper(width=width, layers=layers, heads=width // 64), inputs


def wav2vec2(batch_size: int, *, training: bool, seconds: int = 10) -> Any:
    """wav2vec 2.0 base on 10 seconds of sound; inference only."""
    _refuse_training("wav2vec2", training=training)
    return SoundTransformer(), {"wave": torch.randn(batch_size, 16_000 * seconds)}


def _refuse_training(name: str, *, training: bool) -> None:
    if training:
        raise ValueError(f"{name}: has no loss here; measure it as inference")
