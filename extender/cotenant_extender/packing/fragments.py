"""How much idle GPU the usual pods cannot use: the measure of fragmentation F of Weng et al., ATC 2023, as tables.

    F(node) = sum over typical demands of popularity x what is idle on the node and of no use to it
    of no use = all that is idle, where the demand asks for no GPU or the node cannot take it (CPU, models, GPUs),
                else what is idle on GPUs that have less idle than it asks of each

Typical demands are the most frequent until they are `TYPICAL` of all; popularities add up to 1, and memory is left
aside. What is of use on one GPU depends on the node's model, on how many of the distinct CPU demands fit, and on what
is idle there: so F is the sum of idle hundredths less what tables say. Pure numpy.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cotenant_api.names import HUNDREDTHS, GPUModel
from cotenant_extender.packing import mix

Array: TypeAlias = NDArray[Any]

TYPICAL: Final = 0.95
FIRST: Final = 32
OFTEN: Final = 128

_Kind = tuple[int, int, frozenset[GPUModel]]


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What typical demands can use.

    Attributes:
        models: by code.
        cpus: distinct CPU demands in millicores, ascending, shape (B,).
        pieces: hundredths of use on a GPU, by model, CPU demands that fit, hundredths idle; shape (M, B + 1, 101).
        wholes: popularity of demands for several GPUs, by model, CPU demands that fit, idle GPUs;
            shape (M, B + 1, most GPUs + 1).
    """

    models: tuple[GPUModel, ...]
    cpus: Array
    pieces: Array
    wholes: Array

    def fitting(self, free_cpu_millis: Array) -> Array:
        """Return how many of the distinct CPU demands fit."""
        return np.searchsorted(self.cpus, free_cpu_millis, side="right")


def tables(weights: Mapping[mix.Demand, float], models: tuple[GPUModel, ...], most_gpus: int) -> Tables:
    """Tables of a mix, for nodes of these models with so many GPUs at most."""
    kinds = typical(weights)
    cpus = np.unique([cpu for cpu, _, _ in kinds]).astype(np.int64)
    pieces = np.zeros((len(models), len(cpus) + 1, HUNDREDTHS + 1))
    wholes = np.zeros((len(models), len(cpus) + 1, most_gpus + 1))
    for (cpu, share, named), popularity in kinds.items():
        gpus, bucket = share // HUNDREDTHS, int(np.searchsorted(cpus, cpu)) + 1
        allowed = [code for code, model in enumerate(models) if not named or model in named]
        if gpus > 1:
            wholes[allowed, bucket, gpus:] += popularity
        elif share:
            pieces[allowed, bucket, share:] += popularity
    pieces = pieces.cumsum(axis=1) * np.arange(HUNDREDTHS + 1)
    return Tables(models=models, cpus=cpus, pieces=pieces, wholes=wholes.cumsum(axis=1))


def typical(weights: Mapping[mix.Demand, float]) -> dict[_Kind, float]:
    """Popularity of the most frequent kinds of demand, by CPU, hundredths and models."""
    found: dict[_Kind, float] = {}
    for demand, weight in weights.items():
        key = (demand.cpu_millis, demand.share, demand.gpu_models)
        found[key] = found.get(key, 0.0) + weight
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0][:2], sorted(item[0][2])))
    enough = TYPICAL * sum(found.values())
    before = itertools.accumulate((weight for _, weight in ordered), initial=0.0)
    kept = {kind: weight for (kind, weight), so_far in zip(ordered, before, strict=False) if so_far < enough}
    total = sum(kept.values())
    return {kind: weight / total for kind, weight in kept.items()}


class Fragments:
    """The tables in force, made anew whenever half as many more pods have come, or `OFTEN`."""

    def __init__(self) -> None:
        self._due = FIRST
        self._tables: Tables | None = None

    def tables(self, learned: mix.Mix, models: tuple[GPUModel, ...], most_gpus: int) -> Tables | None:
        """Return what typical demands can use; None until enough pods have come."""
        standing = self._tables
        covers = standing is not None and standing.models == models and standing.wholes.shape[2] > most_gpus
        if learned.arrivals >= self._due or (standing is not None and not covers):
            self._due = learned.arrivals + min(OFTEN, max(learned.arrivals // 2, FIRST))
            self._tables = tables(learned.weights(), models, most_gpus)
        return self._tables
