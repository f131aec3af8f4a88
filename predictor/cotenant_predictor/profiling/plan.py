"""Which runs a campaign consists of, and what is left of it. Pure: the same plan every time, in the same order."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import sets
from .behaviour import questions
from .catalog import Job
from .mechanisms import Mechanism
from .sets import JobSet

STAGES = (*(part.name for part in questions.PARTS), *sets.MEASURED)
"""What can be asked for, in the order in which it is done: experiments, then what is measured of jobs."""
REPEATED = 10
"""Every tenth run of `alone` and `pairs` is repeated twice, for the noise floor."""
PARTITIONS = ((50, 50), (70, 30), (30, 70))
MEMORY_PERCENTAGES = (50, 150)
"""Of the job's peak alone: the first must run out of memory, the second must not."""
MAX_TRIPLES = 70


@dataclasses.dataclass(frozen=True)
class Tenant:
    """One job of a run, with its limits. `load`: Steps (as fast as it can), or the requests of an inference job."""

    job: str
    thread_percentage: int | None = None
    client_priority: int = 0
    memory_limit_percent: int | None = None
    load: str = "Steps"


@dataclasses.dataclass(frozen=True)
class Run:
    """One measurement: tenants that run together. `experiment`: instead of these, one of `behaviour`."""

    stage: str
    mechanism: Mechanism
    tenants: tuple[Tenant, ...]
    repeat: int = 0
    experiment: str = ""

    @property
    def id(self) -> str:
        """Stage and digest of what is run: the same in every call, and the name of the result's file."""
        content = json.dumps(self.to_object(), sort_keys=True).encode()
        return f"{self.stage}-{hashlib.sha256(content).hexdigest()[:16]}"

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Jobs whose result alone this run needs: for a limit in MiB, or for a rate of requests."""
        tenants = (t for t in self.tenants if t.memory_limit_percent is not None or t.load == "Poisson")
        return tuple(dict.fromkeys(tenant.job for tenant in tenants))

    def to_object(self) -> dict[str, Any]:
        """As JSON."""
        found = {**dataclasses.asdict(self), "mechanism": self.mechanism.value}
        if not self.experiment:
            del found["experiment"]  # so that runs of jobs keep the names they always had
        return found

    @classmethod
    def from_object(cls, value: Mapping[str, Any]) -> Run:
        """Return the inverse of `to_object`."""
        tenants = tuple(Tenant(**tenant) for tenant in value["tenants"])
        mechanism = Mechanism(value["mechanism"])
        return cls(value["stage"], mechanism, tenants, value["repeat"], value.get("experiment", ""))

    @property
    def title(self) -> str:
        """What the screen shows."""
        return self.experiment or " + ".join(tenant.job for tenant in self.tenants)


def runs(jobs: JobSet, stages: Collection[str]) -> tuple[Run, ...]:
    """Every run of these stages, in the order in which they are done. `endings` stands for its three parts.

    Raises:
        ValueError: there is no such stage.
    """
    parts = {part.name: part for part in questions.PARTS}
    if questions.ENDINGS in stages:
        stages = {*stages, *(name for name, part in parts.items() if part.stage == questions.ENDINGS)}
    unknown = sorted(set(stages) - {*STAGES, questions.ENDINGS})
    if unknown:
        raise ValueError(f"stage {unknown[0]!r}: choose from {', '.join(STAGES)}")
    makers = {
        "alone": _alone,
        "pairs": _pairs,
        "partitions": _partitions,
        "percentages": _percentages,
        "timeslicing": _time_slicing,
        "priority": _priority,
        "memory": _memory,
        "compare": _compare,
        "triples": _triples,
    }
    wanted = [
        name for name in STAGES if name in stages and (parts[name].stage if name in parts else name) in jobs.stages
    ]
    return tuple(
        run for name in wanted for run in (makers[name](jobs) if name in makers else _experiments(parts[name]))
    )


def left(planned: Sequence[Run], done: Collection[str]) -> tuple[Run, ...]:
    """Return what has no result yet, in order."""
    return tuple(run for run in planned if run.id not in done)


def ready(run: Run, alone: Collection[str]) -> bool:
    """Return whether the results that it waits for are there. `alone`: names of jobs with a good result alone."""
    return set(run.waits_for) <= set(alone)


def counts(planned: Iterable[Run], done: Collection[str]) -> dict[str, tuple[int, int]]:
    """Done and all runs of each stage."""
    found: dict[str, tuple[int, int]] = {}
    for run in planned:
        finished, total = found.get(run.stage, (0, 0))
        found[run.stage] = (finished + (run.id in done), total + 1)
    return found


def _alone(jobs: JobSet) -> Iterator[Run]:
    for index, job in enumerate(jobs.jobs):
        for repeat in _repeats(index):
            yield Run("alone", Mechanism.ALONE, (Tenant(job.name),), repeat)


def _pairs(jobs: JobSet) -> Iterator[Run]:
    for index, (first, second) in enumerate(itertools.combinations(jobs.paired, 2)):
        for repeat in _repeats(index):
            yield Run("pairs", Mechanism.MPS, (Tenant(first), Tenant(second)), repeat)


def _partitions(jobs: JobSet) -> Iterator[Run]:
    for first, second in itertools.combinations(jobs.typical, 2):
        for one, other in PARTITIONS:
            yield Run("partitions", Mechanism.MPS, (Tenant(first, one), Tenant(second, other)))


def _percentages(jobs: JobSet) -> Iterator[Run]:
    for name in jobs.typical:
        for percentage in range(10, 101, 10):
            yield Run("percentages", Mechanism.MPS, (Tenant(name, percentage),))


def _time_slicing(jobs: JobSet) -> Iterator[Run]:
    for first, second in itertools.combinations(jobs.typical, 2):
        yield Run("timeslicing", Mechanism.TIME_SLICING, (Tenant(first), Tenant(second)))


def _priority(jobs: JobSet) -> Iterator[Run]:
    for serving, training in _serving_beside_training(jobs, jobs.typical):
        yield Run("priority", Mechanism.MPS, (Tenant(serving), Tenant(training, client_priority=1)))


def _memory(jobs: JobSet) -> Iterator[Run]:
    for name in jobs.typical:
        for percent in MEMORY_PERCENTAGES:
            yield Run("memory", Mechanism.MPS, (Tenant(name, memory_limit_percent=percent),))
    for name, other in itertools.pairwise(jobs.typical[:4]):
        yield Run("memory", Mechanism.MPS, (Tenant(name, memory_limit_percent=MEMORY_PERCENTAGES[0]), Tenant(other)))


def _compare(jobs: JobSet) -> Iterator[Run]:
    """Yield the first two pairs of an inference and a training job, by mechanism, with both kinds of requests."""
    pairs = list(itertools.islice(_serving_beside_training(jobs, jobs.typical), 2))
    for load in ("SingleStream", "Poisson"):
        for serving in dict.fromkeys(serving for serving, _ in pairs):
            yield Run("compare", Mechanism.ALONE, (Tenant(serving, load=load),))
        for serving, training in pairs:
            for mechanism in (Mechanism.TIME_SLICING, Mechanism.PRIORITY_STREAMS, Mechanism.MPS):
                yield Run("compare", mechanism, (Tenant(serving, load=load), Tenant(training, client_priority=1)))


def _triples(jobs: JobSet) -> Iterator[Run]:
    """Yield a fixed sample in the order of digests: any first part of it is a fair sample, too."""
    every = itertools.combinations(jobs.paired, 3)
    ordered = sorted(every, key=lambda names: hashlib.sha256(" ".join(names).encode()).digest())
    for names in ordered[:MAX_TRIPLES]:
        yield Run("triples", Mechanism.MPS, tuple(Tenant(name) for name in names))


def _experiments(part: questions.Part) -> Iterator[Run]:
    for name, repeat in part.runs():
        yield Run(part.stage, Mechanism.MPS, (), repeat, name)


def _serving_beside_training(jobs: JobSet, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """All pairs; the first ones differ in both jobs."""
    known: dict[str, Job] = {job.name: job for job in jobs.jobs}
    serving = [name for name in names if not known[name].training]
    training = [name for name in names if known[name].training]
    for shift in range(len(training)):
        for index, name in enumerate(serving):
            yield name, training[(index + shift) % len(training)]


def _repeats(index: int) -> range:
    return range(3 if index % REPEATED == 0 else 1)
