"""The jobs of the case study: drawn from its mix of models, with run times and errors of prediction as assumed.

Assumed, because it is not published: `Assumed`; run times alone are log-uniform; what a job really needs is lognormal
about what is predicted, utilization by the published error, memory by `MEMORY_SIGMA`.
"""

import dataclasses
import gzip
import importlib.resources
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cotenant_api import prediction
from cotenant_api.graph import Graph
from cotenant_predictor import devices
from cotenant_predictor.jobs import prediction as predicting
from cotenant_simulator.engine import jobs
from cotenant_simulator.horus import published

MEMORY_SIGMA: Final = 0.05
HEADROOM: Final = 0.95
"""Jobs of which the prediction exceeds this part of the GPU are not in the mix: all of the study's fit."""
NEVER: Final = 604800
"""Seconds: the longest minimum run time that a policy can count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What is not published.

    Attributes:
        sigma: of the logarithm of utilization over its prediction.
        arrival_seconds: over which jobs are submitted, each at a time drawn evenly; 0: all at once.
        estimate_sigma: of the logarithm of what a user says of a run time over the run time.
    """

    sigma: float = published.RMSLE
    arrival_seconds: float = 0.0
    estimate_sigma: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Three PriorityClasses by the run time that a user expects: long before short before all others.

    Attributes:
        long_seconds: from there on a job is long.
        short_seconds: below, it is short.
    """

    long_seconds: float
    short_seconds: float

    def priority(self, expected_seconds: float) -> int:
        """Of a job that is expected to run so long."""
        if expected_seconds >= self.long_seconds:
            return 2
        return 1 if expected_seconds < self.short_seconds else 0


_MANIFESTS: Final = MappingProxyType(
    {
        published.Definitions.TORCHVISION: "manifest-torchvision.json",
        published.Definitions.PYTORCH_CIFAR: "manifest.json",
    }
)


def graphs(definitions: published.Definitions) -> Mapping[str, Graph]:
    """Return the computation graphs of the mix, by name."""
    folder = importlib.resources.files(__package__).joinpath("graphs")
    names = json.loads(folder.joinpath(_MANIFESTS[definitions]).read_bytes())
    return {
        name: Graph.read(gzip.decompress(folder.joinpath(file).read_bytes()), source=file)
        for name, file in sorted(names.items())
    }


def predictions(
    definitions: published.Definitions, knowledge: predicting.Knowledge
) -> Mapping[str, prediction.Prediction]:
    """Return what is predicted for those that fit the study's GPU model, by name."""
    (device,) = devices.select([published.GPU_MODEL])
    found = {
        name: predicting.predict(graph, (device,), knowledge=knowledge) for name, graph in graphs(definitions).items()
    }
    most = HEADROOM * device.memory_mib
    return {name: one for name, one in found.items() if one.by_gpu[published.GPU_MODEL].memory_mib.upper <= most}


def drawn(
    mix: Mapping[str, prediction.Prediction], *, seed: int, sigma: float, count: int = published.JOBS
) -> Sequence[jobs.Job]:
    """So many jobs of the mix, at once; those of one model are alike, and as far from what is predicted.

    Args:
        mix: what is predicted, by name.
        seed: of the draw; it draws the same jobs whatever `sigma` is.
        sigma: of the logarithm of what is really needed over what is predicted.
        count: how many jobs.
    """
    kinds = {name: kind(name, predicted, seed=seed, sigma=sigma) for name, predicted in mix.items()}
    names, chance = list(kinds), random.Random(f"jobs {seed}")  # noqa: S311 -- the same draw everywhere, not a secret
    longer = published.LONGEST_SECONDS / published.SHORTEST_SECONDS
    return [
        jobs.Job(
            name=f"job-{number:03}",
            kind=kinds[chance.choice(names)],
            arrives=0.0,
            seconds={published.GPU_MODEL: published.SHORTEST_SECONDS * longer ** chance.random()},
        )
        for number in range(count)
    ]


def arriving(given: Sequence[jobs.Job], *, seed: int, seconds: float) -> Sequence[jobs.Job]:
    """Return the same jobs in the same order, submitted over so many seconds; the first at the beginning."""
    if not seconds:
        return given
    chance = random.Random(f"arrivals {seed}")  # noqa: S311
    times = sorted(chance.uniform(0.0, seconds) for _ in given)
    return [dataclasses.replace(job, arrives=at - times[0]) for job, at in zip(given, times, strict=True)]


def in_classes(given: Sequence[jobs.Job], classes: Classes, *, seed: int, sigma: float) -> Sequence[jobs.Job]:
    """Return the same jobs with priorities by what their users expect; none is evicted for another."""
    chance = random.Random(f"estimates {seed}")  # noqa: S311
    expected = [job.seconds[published.GPU_MODEL] * math.exp(chance.gauss(0, sigma)) for job in given]
    return [
        dataclasses.replace(job, priority=classes.priority(seconds), minimum_run_seconds=NEVER)
        for job, seconds in zip(given, expected, strict=True)
    ]


def kind(name: str, predicted: prediction.Prediction, *, seed: int, sigma: float) -> jobs.Kind:
    """Draw what is really needed, lognormal about what is predicted; arguments as of `drawn`."""
    chance = random.Random(f"{name} {seed}")  # noqa: S311
    busier, larger = math.exp(chance.gauss(0, sigma)), math.exp(chance.gauss(0, MEMORY_SIGMA if sigma else 0.0))
    real = {model: _times(found, busier=busier, larger=larger) for model, found in predicted.by_gpu.items()}
    return jobs.Kind(name=name, predicted=predicted, real=real)


def _times(found: prediction.GPUPrediction, *, busier: float, larger: float) -> prediction.GPUPrediction:
    def range_of(before: prediction.PercentRange) -> prediction.PercentRange:
        value = min(100.0, before.q50 * busier)
        return prediction.PercentRange(q50=value, upper=value)

    memory = math.ceil(found.memory_mib.q50 * larger)
    return found.model_copy(
        update={
            "utilization": range_of(found.utilization),
            "sm_activity": range_of(found.sm_activity),
            "dram_activity": range_of(found.dram_activity),
            "memory_mib": prediction.MemoryRange(q50=memory, upper=memory),
        }
    )
