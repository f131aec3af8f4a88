"""One way on one virtual cluster at one load, where one truth holds; and what it came to. Pure."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import packingpolicy, prediction
from cotenant_extender.packing import policies
from cotenant_simulator.engine import history, world
from cotenant_simulator.philly import population, settings, truths

SEED: Final = 1
"""Of what jobs really need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One run.

    Attributes:
        cluster: name of the virtual cluster.
        jobs: the first so many of them.
        load: of its GPUs.
        truth: what holds.
        way: name of the setting.
    """

    cluster: str
    jobs: int
    load: float
    truth: truths.Truth
    way: str

    @property
    def title(self) -> str:
        """For progress."""
        return f"{self.cluster} at load {self.load:g}, {self.truth}: {self.way}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run came to.

    Attributes:
        completions: seconds from submission to end, of the jobs that were done, rising.
        slowdowns: how much longer these held their GPUs than they would have run alone, rising; 0 is no longer.
        occupied_percent: GPUs with a job, the mean over time, of all there are.
        unfinished: jobs that were never done.
        out_of_memory: attempts that ended so.
    """

    completions: Sequence[float]
    slowdowns: Sequence[float]
    occupied_percent: float
    unfinished: int
    out_of_memory: int

    @property
    def mean_seconds(self) -> float:
        """From submission to end."""
        return statistics.fmean(self.completions)


def keys(clusters: Sequence[str], *, jobs: int, loads: Sequence[float]) -> list[Key]:
    """All runs: of one job a GPU only under the formula, as nobody shares there."""
    return [
        Key(cluster=cluster, jobs=jobs, load=load, truth=truth, way=setting.name)
        for cluster in clusters
        for load in loads
        for setting in settings.ALL
        for truth in truths.Truth
        if setting.name != settings.BASE or truth is truths.Truth.FORMULA
    ]


def base(key: Key) -> Key:
    """Return the run that it is compared with."""
    return dataclasses.replace(key, truth=truths.Truth.FORMULA, way=settings.BASE)


def run(key: Key, known: Mapping[str, prediction.Prediction]) -> Figures:
    """One run; the same arguments give the same figures.

    Args:
        key: which one.
        known: what is predicted, by job type.
    """
    setting = settings.named(key.way)
    spec = packingpolicy.Spec.model_validate({**setting.packing, "maxTenantsPerGPU": settings.MAX_TENANTS})
    given = population.submitted(key.cluster, key.jobs)
    made = world.World(
        population.nodes(given),
        population.drawn(given, known, load=key.load, seed=SEED),
        way=setting.way,
        policy=policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=spec)),
        speeds=truths.speeds_of(key.truth),
    )
    return figures(made.run())


def figures(found: history.History) -> Figures:
    """Return what a run came to."""
    return Figures(
        completions=sorted(life.completion for life in found.lives if life.completion is not None),
        slowdowns=sorted(life.slowdown for life in found.lives if life.ended is not None),
        occupied_percent=found.occupied_percent,
        unfinished=sum(life.ended is None for life in found.lives),
        out_of_memory=sum(life.out_of_memory for life in found.lives),
    )
