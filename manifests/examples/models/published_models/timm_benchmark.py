"""The steps of image models that timm's benchmark.py measured: AMP in fp16, synthetic images, SGD with momentum.

A model's graphs are one file. Layout is no part of them: the same operators run, on tensors laid out otherwise.

Eager inference ran with timm's "fast norm", layer and group norms in fp16: norms in fp32 need more memory than the GPU
has for batches that ran (efficientnet_b3_g8_gn: 28 GB for the norm of one tensor alone, and its result), and steps of
models with group norms would be shorter than their bytes take at the GPU's peak bandwidth. Of training, times say the
opposite.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional

from cotenant_predictor.datasets import timm as measured

from .jobs import Published

OPTIMIZER = "sgd:momentum=0.9,weight_decay=0.0001"


def bundles() -> Mapping[str, list[Published]]:
    """The jobs of each chosen model, by file name."""
    found: dict[str, dict[str, Published]] = {}
    for row in measured.published():
        if measured.chosen(row.model):
            jobs = found.setdefault(f"{row.model}{measured.SUFFIX}", {})
            for job in (_job(row, fused=True, merged=False), _job(row, fused=row.fused, merged=row.merged)):
                jobs[job.name] = job
    return {file: list(jobs.values()) for file, jobs in found.items()}


def _job(row: measured.Published, *, fused: bool, merged: bool) -> Published:
    name = row.graph_name(fused=fused, merged=merged)
    return Published(
        key=name,
        name=name,
        build=functools.partial(_build, row, fused=fused, merged=merged),
        batch_size=row.batch_size,
        training=row.training,
        optimizer=OPTIMIZER if row.training else None,
        compiled=row.compiled,
        data_on_gpu=True,
        precision="fp16",
    )


def _build(
    row: measured.Published, *, fused: bool, merged: bool
) -> tuple[nn.Module, tuple[Tensor]] | tuple[nn.Module, tuple[Tensor], Callable[[Any], Any]]:
    timm.layers.set_fused_attn(fused)
    timm.layers.set_fast_norm(not row.training and not row.compiled)
    model = timm.create_model(row.model, pretrained=False)
    if merged:
        model = timm.utils.reparameterize_model(model.eval())
    images = (torch.empty(row.batch_size, 3, row.image, row.image),)
    if not row.training:
        return model, images
    labels = torch.empty(row.batch_size, dtype=torch.long)

    def loss(output: Any) -> Tensor:
        logits = output[0] if isinstance(output, (tuple, list)) else output
        return functional.cross_entropy(logits, labels)

    return model, images, loss
