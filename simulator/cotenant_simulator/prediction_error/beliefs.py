"""Jobs as they are, believed to be otherwise: a lognormal error on what is predicted of each model. Pure.

    believed = predicted x exp(sigma x z)          z drawn once for each kind of job, axis and seed

Median and upper bound are wrong by the same factor: nobody knows of it. The same draw serves every sigma, so that a
curve over sigma shows the error's size and not its luck.
"""

import dataclasses
import enum
import math
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from cotenant_api import prediction
from cotenant_api.names import GPUModel
from cotenant_simulator.engine import jobs

_WHOLE: Final = 100.0


class Of(enum.StrEnum):
    """What is predicted wrongly."""

    UTILIZATION = "utilization"
    """And with it the activity of SMs and memory."""
    MEMORY = "memory"
    BOTH = "both"
    """Each with an error of its own, of the same sigma."""


AXES: Final[Mapping[Of, Sequence[Of]]] = MappingProxyType(
    {
        Of.UTILIZATION: (Of.UTILIZATION,),
        Of.MEMORY: (Of.MEMORY,),
        Of.BOTH: (Of.UTILIZATION, Of.MEMORY),
    }
)


def believed(
    given: Sequence[jobs.Job], *, of: Of, sigma: float, seed: int, most_mib: Mapping[GPUModel, int]
) -> list[jobs.Job]:
    """Return the same jobs, of which others things are believed; those of one kind are as far off.

    Args:
        given: jobs, and what is predicted of them.
        of: what is wrong.
        sigma: of the logarithm of believed over predicted; with 0 nothing changes.
        seed: of the draw.
        most_mib: memory that may be believed, by GPU model: whoever is believed to need more would be refused, and
            that is no matter of packing.
    """
    kinds: dict[jobs.Kind, jobs.Kind] = {}
    for job in given:
        if job.kind not in kinds:
            kinds[job.kind] = _kind(job.kind, _factors(job.kind.name, of=of, sigma=sigma, seed=seed), most_mib)
    return [dataclasses.replace(job, kind=kinds[job.kind]) for job in given]


def _factors(name: str, *, of: Of, sigma: float, seed: int) -> dict[Of, float]:
    """By which each axis is wrong."""

    def drawn(axis: Of) -> float:
        chance = random.Random(f"{axis} {name} {seed}")  # noqa: S311 -- the same draw everywhere, not a secret
        return math.exp(sigma * chance.gauss(0, 1))

    return {axis: drawn(axis) if axis in AXES[of] else 1.0 for axis in (Of.UTILIZATION, Of.MEMORY)}


def _kind(kind: jobs.Kind, factors: Mapping[Of, float], most_mib: Mapping[GPUModel, int]) -> jobs.Kind:
    if kind.predicted is None:
        return kind
    by_gpu = {model: _wrong(found, factors, most_mib[model]) for model, found in kind.predicted.by_gpu.items()}
    return dataclasses.replace(kind, predicted=kind.predicted.model_copy(update={"by_gpu": by_gpu}))


def _wrong(found: prediction.GPUPrediction, factors: Mapping[Of, float], most_mib: int) -> prediction.GPUPrediction:
    busier, larger = factors[Of.UTILIZATION], factors[Of.MEMORY]

    def percent(before: prediction.PercentRange) -> prediction.PercentRange:
        q50, upper = (min(_WHOLE, value * busier) for value in (before.q50, before.upper))
        return prediction.PercentRange(q50=q50, upper=upper)

    def mib(before: int) -> int:
        # What was believed before any error may stand, however much it is.
        return min(math.ceil(before * larger), max(before, most_mib))

    memory = found.memory_mib
    return found.model_copy(
        update={
            "utilization": percent(found.utilization),
            "sm_activity": percent(found.sm_activity),
            "dram_activity": percent(found.dram_activity),
            "memory_mib": prediction.MemoryRange(q50=mib(memory.q50), upper=mib(memory.upper)),
        }
    )
