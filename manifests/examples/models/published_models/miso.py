"""MISO's training jobs (boringlee24/socc22-miso, `mps/models/`): their networks, shapes, losses and optimizers.

The programs are TensorFlow's with Keras, in fp32, where products and convolutions run as TF32 by default; nothing is
compiled. Keras ignores `workers=4` for the data that these programs give: no loader worker is declared, and how fast
input comes is unknown. What the programs leave to the data is declared here, each beside its reason.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from cotenant_predictor.extraction import huggingface

from . import miso_networks as networks
from .jobs import Published

IMAGES = (64, 128, 256, 512)
FRAMES = {2: 1_070, 4: 1_210, 8: 1_290, 16: 1_350}
"""Of the longest clip of a batch, to which all are filled up: LJSpeech's last 6.6 s in the mean, with a deviation of
2.2 s and at most 10.1 s, at 22,050 samples a second, 160 to a frame."""
ATOMS, PAIRS = 24, 76
"""Of a molecule of BBBP in the mean; pairs are both ways of each of 26 bonds, and each atom with itself."""
LARGEST = {64: 66, 128: 78, 256: 92, 512: 108}
"""Atoms of the largest of so many molecules; assumed: the largest of all 2,050 has 132."""


def jobs() -> list[Published]:
    """Return every program at every batch size that was measured."""
    return [
        Published(
            key=f"{program},{batch}",
            name=f"miso-{program}-{batch}",
            build=functools.partial(build, batch),
            batch_size=batch,
            precision="tf32",
            tf32=True,
            examples=huggingface.EXAMPLES if program == "bert" else {},
        )
        for program, (build, batches) in PROGRAMS.items()
        for batch in batches
    ]


def _image(build: Callable[[int], nn.Module], batch: int) -> Any:
    return networks.trained(build(10), (torch.empty(batch, 3, 32, 32),), networks.classified(batch))


def _bert(batch: int) -> Any:
    """Texts filled up to 512 words; attention as products and a softmax, as transformers has it in TensorFlow."""
    config = transformers.BertConfig(vocab_size=28_996, num_labels=2)
    config._attn_implementation = "eager"
    model = transformers.BertForSequenceClassification(config)
    loss = networks.classified(batch)
    words, kinds, mask = (torch.zeros(batch, 512, dtype=torch.long) for _ in range(3))
    return networks.trained(model, (words, mask, kinds), lambda output: loss(output.logits))


def _speech(batch: int) -> Any:
    """The CTC loss that Keras takes runs on the CPU: the GPU gets its gradient, and multiplies by it."""
    frames = FRAMES[batch]
    spectrogram, gradient = torch.empty(batch, frames, 193), torch.empty(batch, -(-frames // 2), 32)
    model = networks.DeepSpeech()
    return networks.trained(model, (spectrogram,), lambda output: ((output + 1e-7).log() * gradient).sum())


def _molecules(batch: int) -> Any:
    """Return molecules of the mean size but one, which is as large as the largest."""
    sizes = [ATOMS] * (batch - 1) + [LARGEST[batch]]
    pairs = PAIRS * batch
    inputs = (torch.empty(sum(sizes), 29), torch.empty(pairs, 7), torch.zeros(pairs, 2, dtype=torch.long))
    labels = torch.empty(batch, 1)
    model = networks.MoleculeNetwork(sizes)
    return networks.trained(model, inputs, lambda output: functional.binary_cross_entropy(output, labels))


def _words(batch: int) -> Any:
    words = torch.zeros(batch, 200, dtype=torch.long)
    return networks.trained(networks.WordConvolutions(), (words,), networks.classified(batch), torch.optim.RMSprop)


def _series(batch: int) -> Any:
    series: Tensor = torch.empty(batch, 500, 1)
    return networks.trained(networks.series_transformer(500), (series,), networks.classified(batch))


def _dummy(batch: int) -> Any:
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return networks.trained(model, (torch.empty(batch, 28, 28),), networks.classified(batch))


PROGRAMS: Mapping[str, tuple[Callable[[int], Any], tuple[int, ...]]] = MappingProxyType(
    {
        "bert": (_bert, (2, 4, 6, 8)),
        "cyclegan": (networks.cyclegan, (1, 2, 3, 4)),
        "deepspeech2": (_speech, tuple(FRAMES)),
        "dummy": (_dummy, (32,)),
        "embedding": (_words, IMAGES),
        "gnn": (_molecules, tuple(LARGEST)),
        "mobilenet": (functools.partial(_image, networks.mobilenet_v2), IMAGES),
        "resnet": (functools.partial(_image, networks.resnet50), IMAGES),
        "transformer": (_series, (16, 32, 64, 128)),
    }
)
"""By the name in the measured files: what makes a step, and the batch sizes."""
