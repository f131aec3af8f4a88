"""The named sets of jobs. Pure.

`horus81`: ten image networks and LSTM language models, as the published study of utilization lists them: images of
32 pixels, batches 64 to 512; texts of 200 words of 10,000, batches 16 to 64. That study ran 81 of its 93
combinations, as many as fitted its GPUs of 8 GB, and does not say which; here the twelve with the largest
activations are left out. `kace21`: training of BERT, ViT and ALBERT, inference of BERT, ViT, Whisper and wav2vec
2.0, each at batch 2, 8 and 16. `smoke`: three quick ones, to try out a machine. `ten`: what a
quarter of an hour measures. `behaviour`: how
MPS itself acts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from . import catalog
from .behaviour import questions
from .catalog import Job

_SMALL = {"size": 32, "classes": 10}

# name, group, network, arguments, batches left out
_IMAGE: tuple[tuple[str, str, str, dict[str, Any], tuple[int, ...]], ...] = (
    ("mobilenetv2", "mobilenetv2", "mobile.mobilenetv2", _SMALL, ()),
    ("mobilenetv2-x2", "mobilenetv2", "mobile.mobilenetv2", {"width": 2.0, **_SMALL}, (512,)),
    ("resnet18", "resnet", "residual.resnet", {"depth": 18, **_SMALL}, ()),
    ("resnet34", "resnet", "residual.resnet", {"depth": 34, **_SMALL}, ()),
    ("resnet50", "resnet", "residual.resnet", {"depth": 50, **_SMALL}, (512,)),
    ("resnet26", "resnet", "residual.resnet", {"depth": 26, **_SMALL}, (512,)),
    ("googlenet", "googlenet", "classic.googlenet", _SMALL, (512,)),
    ("vgg19", "vgg", "classic.vgg", {"depth": 19, **_SMALL}, ()),
    ("resnext11-2x16", "resnext", "residual.resnext", {"blocks": 1, "cardinality": 2, "width": 16}, ()),
    ("squeezenet", "squeezenet", "classic.squeezenet", _SMALL, ()),
    ("densenet121", "densenet", "classic.densenet", {"depth": 121, **_SMALL}, (512,)),
    ("densenet161", "densenet", "classic.densenet", {"depth": 161, **_SMALL}, (256, 512)),
    ("densenet169", "densenet", "classic.densenet", {"depth": 169, **_SMALL}, (256, 512)),
    ("shufflenetv2-x0.5", "shufflenetv2", "mobile.shufflenetv2", {"width": 0.5, **_SMALL}, ()),
    ("shufflenetv2-x1", "shufflenetv2", "mobile.shufflenetv2", {"width": 1.0, **_SMALL}, ()),
    ("shufflenetv2-x2", "shufflenetv2", "mobile.shufflenetv2", {"width": 2.0, **_SMALL}, ()),
    ("mnasnet-x0.5", "mnasnet", "mobile.mnasnet", {"width": 0.5, **_SMALL}, ()),
    ("mnasnet-x1", "mnasnet", "mobile.mnasnet", {"width": 1.0, **_SMALL}, ()),
    ("mnasnet-x1.3", "mnasnet", "mobile.mnasnet", {"width": 1.3, **_SMALL}, ()),
    ("pyramidnet-a48", "pyramidnet", "residual.pyramidnet", {"alpha": 48}, (512,)),
    ("pyramidnet-a84", "pyramidnet", "residual.pyramidnet", {"alpha": 84}, (256, 512)),
)
_LSTM = (("lstm-256x1", 256, 1), ("lstm-512x2", 512, 2), ("lstm-1024x2", 1024, 2))
_KINDS = (
    "resnet50-128",
    "mobilenetv2-128",
    "densenet121-64",
    "lstm-512x2-32",
    "bert-training-8",
    "vit-training-8",
    "whisper-inference-8",
    "wav2vec2-inference-8",
)
_MORE = ("vgg19-256", "bert-inference-8")
_FIVE = ("resnet50-128", "lstm-512x2-32", "bert-training-8", "vit-training-8", "whisper-inference-8")
_TRANSFORMERS = (
    ("bert", "bert", "language.bert", True),
    ("vit", "vit", "perception.vit", True),
    ("albert", "albert", "language.albert", True),
    ("bert", "bert", "language.bert", False),
    ("vit", "vit", "perception.vit", False),
    ("whisper", "whisper", "perception.whisper", False),
    ("wav2vec2", "wav2vec2", "perception.wav2vec2", False),
)


MEASURED = ("alone", "pairs", "partitions", "timeslicing", "priority", "memory", "compare", "triples", "percentages")
"""Stages of a plan that measure jobs, in the order in which they are done: the longest is last."""


@dataclasses.dataclass(frozen=True)
class JobSet:
    """A named set. `paired`: the jobs of its pairs; `typical`: one of each kind, for what is not done with all.

    `stages`: which of the plan are done with it; None: all that measure jobs.
    """

    name: str
    jobs: tuple[Job, ...]
    paired: tuple[str, ...]
    typical: tuple[str, ...]
    stages: tuple[str, ...] = MEASURED


def named(name: str) -> JobSet:
    """Return the set of this name.

    Raises:
        ValueError: there is none.
    """
    if name not in SETS:
        raise ValueError(f"set {name!r}: choose one of {', '.join(SETS)}")
    return SETS[name]()


def in_precision(jobs: JobSet, precision: str) -> JobSet:
    """Return the same set in another precision; names say so. Raises ValueError: there is no such precision."""
    renamed = {job.name: catalog.in_precision(job, precision) for job in jobs.jobs}
    return JobSet(
        f"{jobs.name}-{precision}",
        tuple(renamed.values()),
        tuple(renamed[name].name for name in jobs.paired),
        tuple(renamed[name].name for name in jobs.typical),
        jobs.stages,
    )


def horus81() -> JobSet:
    """81 jobs; its 276 pairs are those of the 24 models at their smallest batch."""
    jobs = []
    for name, group, network, arguments, without in _IMAGE:
        jobs += [
            Job(f"{name}-{batch}", group, "convolutional", network, batch, arguments=arguments)
            for batch in (64, 128, 256, 512)
            if batch not in without
        ]
    for name, width, layers in _LSTM:
        for batch in (16, 32, 64):
            arguments = {"width": width, "layers": layers}
            jobs.append(
                Job(
                    f"{name}-{batch}", "lstm", "recurrent", "language.lstm", batch, optimizer="sgd", arguments=arguments
                )
            )
    paired = tuple(job.name for job in jobs if job.batch_size == (16 if job.group == "lstm" else 64))
    return JobSet("horus81", tuple(jobs), paired, _first_of_each(jobs, lambda job: job.group, paired))


def kace21() -> JobSet:
    """21 jobs and all their 210 pairs."""
    jobs = []
    for name, group, network, training in _TRANSFORMERS:
        mode = "training" if training else "inference"
        jobs += [
            Job(f"{name}-{mode}-{batch}", group, "transformer", network, batch, training, optimizer="adamw")
            for batch in (2, 8, 16)
        ]
    names = tuple(job.name for job in jobs)
    return JobSet("kace21", tuple(jobs), names, tuple(name for name in names if name.endswith("-8")))


def smoke() -> JobSet:
    """Three jobs: a small network, a recurrent one and an inference."""
    jobs = (
        Job("resnet18-64", "resnet", "convolutional", "residual.resnet", 64, arguments={"depth": 18, **_SMALL}),
        Job("lstm-256x1-16", "lstm", "recurrent", "language.lstm", 16, arguments={"width": 256, "layers": 1}),
        Job("squeezenet-inference-8", "squeezenet", "convolutional", "classic.squeezenet", 8, False, arguments=_SMALL),
    )
    names = tuple(job.name for job in jobs)
    return JobSet("smoke", jobs, names, names)


def ten() -> JobSet:
    """Ten jobs of ten kinds; of five of them, of small and of large demand, all ten pairs."""
    known = {job.name: job for job in (*horus81().jobs, *kace21().jobs)}
    return JobSet("ten", tuple(known[name] for name in (*_KINDS, *_MORE)), _FIVE, _FIVE)


def behaviour() -> JobSet:
    """One job of each of eight kinds, at every percentage of threads, and the experiments with MPS itself."""
    known = {job.name: job for job in (*horus81().jobs, *kace21().jobs)}
    jobs = tuple(known[name] for name in _KINDS)
    return JobSet("behaviour", jobs, (), _KINDS, (*questions.STAGES, "alone", "percentages"))


SETS: dict[str, Callable[[], JobSet]] = {
    "behaviour": behaviour,
    "horus81": horus81,
    "kace21": kace21,
    "smoke": smoke,
    "ten": ten,
}


def _first_of_each(jobs: Iterable[Job], key: Callable[[Job], str], among: tuple[str, ...]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for job in jobs:
        if job.name in among:
            found.setdefault(key(job), job.name)
    return tuple(found.values())
