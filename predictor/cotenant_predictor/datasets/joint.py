"""Jobs that ran together, each with what it is alone: from measurement files, or from a shipped set.

A run that ended badly (no memory, a crash) is kept as one that did not run; nothing is averaged and nothing filled in.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api.graph import Graph
from cotenant_api.measurement import Measurement, Outcome
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_predictor import devices
from cotenant_predictor.colocation import profiles
from cotenant_predictor.datasets import measurements as files
from cotenant_predictor.datasets.measurements import Measurements
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import step as steps
from cotenant_predictor.jobs.coefficients import Coefficients

Array: TypeAlias = npt.NDArray[Any]

_ALONE: Final[Mapping[str, Callable[[Measurement], float | None]]] = {
    **{name: read for name, read in files.TARGETS.items() if name not in {"normalizedSpeed", "powerWatts"}},
    "longKernelShare": lambda record: record.values.long_kernel_share,
    "largeKernelShare": lambda record: record.values.large_kernel_share,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One job on one GPU model."""

    name: str
    group: str
    family: str
    gpu_model: GPUModel
    graph: Graph
    alone: Mapping[str, float]
    """What was measured of it alone with all threads, by name of a measurement's value; empty: nothing was."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tenant:
    """A job in a run."""

    job: int
    """Position in `Joint.jobs`."""
    threads: float = 1.0
    priority: int = 0
    speed: float = float("nan")
    """Of its speed alone; NaN where it was not measured."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """Jobs together on one GPU."""

    mechanism: str
    tenants: tuple[Tenant, ...]
    ran: bool = True
    """Whether all tenants ran to the end."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Joint:
    """Runs of jobs together."""

    jobs: tuple[Job, ...]
    runs: tuple[Run, ...]
    coefficients: Coefficients = constants.FORMULA_1
    simulated: bool = False
    known: Mapping[GPUModel, Device] = dataclasses.field(default_factory=devices.load)
    """The GPU models that are known; every job's is."""

    @functools.cached_property
    def profiles(self) -> Array:
        """What each job is alone, shape (n_jobs, n_columns), columns as `colocation.profiles.COLUMNS`."""
        rows = []
        for job in self.jobs:
            step = steps.of(job.graph, (self.known[job.gpu_model],), coefficients=self.coefficients)
            rows.append(profiles.of_step(step, 0, job.alone))
        return np.array(rows).reshape(len(rows), len(profiles.COLUMNS))

    def tenants(self) -> Array:
        """Return the tenants of every run, shape (n_runs, n_most, n_columns), NaN where a place is empty."""
        most = max((len(run.tenants) for run in self.runs), default=0)
        found = np.full((len(self.runs), most, len(profiles.COLUMNS)), np.nan)
        for index, run in enumerate(self.runs):
            chosen = self.profiles[[tenant.job for tenant in run.tenants]]
            threads = np.array([tenant.threads for tenant in run.tenants])
            priority = np.array([tenant.priority for tenant in run.tenants])
            found[index, : len(run.tenants)] = profiles.with_settings(chosen, threads=threads, priority=priority)
        return found

    def speeds(self) -> Array:
        """Measured speeds, shape (n_runs, n_most), NaN where a place is empty or nothing was measured."""
        most = max((len(run.tenants) for run in self.runs), default=0)
        found = np.full((len(self.runs), most), np.nan)
        for index, run in enumerate(self.runs):
            found[index, : len(run.tenants)] = [tenant.speed for tenant in run.tenants]
        return found

    def labels(self, kind: str) -> list[tuple[str, ...]]:
        """`group`, `family`, `gpu_model` or `name` of every tenant, by run."""
        return [tuple(str(getattr(self.jobs[tenant.job], kind)) for tenant in run.tenants) for run in self.runs]

    @property
    def groups_are_families(self) -> bool:
        """Whether each group is a whole family, so that holding out the one holds out the other."""
        labels = {(job.group, job.family) for job in self.jobs}
        return len(labels) == len({group for group, _ in labels}) == len({family for _, family in labels})

    def where(self, keep: Callable[[Run], bool]) -> Self:
        """Return the runs that `keep` accepts, in order, with all jobs."""
        return self._with(tuple(run for run in self.runs if keep(run)))

    def take(self, indices: Iterable[int]) -> Self:
        """Return the runs at these positions, in their order, with all jobs."""
        return self._with(tuple(self.runs[index] for index in indices))

    def of_mechanism(self, mechanism: str) -> Self:
        """Return the runs of one mechanism that ran."""
        return self.where(lambda run: run.ran and run.mechanism == mechanism)

    def _with(self, runs: tuple[Run, ...]) -> Self:
        """Return the same jobs with other runs; what the jobs are alone is not computed again."""
        found = dataclasses.replace(self, runs=runs)
        vars(found)["profiles"] = self.profiles
        return found

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Mechanisms of the runs, sorted."""
        return tuple(sorted({run.mechanism for run in self.runs}))


def of_measurements(measured: Measurements, *, coefficients: Coefficients = constants.FORMULA_1) -> Joint:
    """Return the joint runs among the lines.

    What a job is alone comes from lines of the same GPU model without co-tenants.

    A tenant without a line of its own is there without a speed. Groups and families are those of the lines. Lines of a
    namespace are not looked at: its jobs alone would be the measure of everybody's pairs.
    """
    measured = measured.where(lambda record: record.namespace is None)
    alone = _alone(measured)
    groups, families = _labels(measured)
    positions: dict[tuple[GraphDigest, GPUModel], int] = {}
    jobs: list[Job] = []

    def position(digest: GraphDigest, gpu_model: GPUModel) -> int:
        key = (digest, gpu_model)
        if key not in positions:
            positions[key] = len(jobs)
            graph = measured.graphs[digest]
            group = groups.get(digest, graph.name or str(digest))
            family = families.get(digest) or files.family_of(graph)
            jobs.append(
                Job(
                    name=str(digest),
                    group=group,
                    family=family,
                    gpu_model=gpu_model,
                    graph=graph,
                    alone=alone.get(key, {}),
                )
            )
        return positions[key]

    runs = [_run(lines, position) for lines in _lines_of_runs(measured)]
    return Joint(
        jobs=tuple(jobs),
        runs=tuple(runs),
        coefficients=coefficients,
        simulated=measured.simulated,
        known=measured.known,
    )


def _alone(measured: Measurements) -> dict[tuple[GraphDigest, GPUModel], dict[str, float]]:
    """Means over repeats of what was measured of jobs alone with all threads."""
    seen: dict[tuple[GraphDigest, GPUModel], dict[str, list[float]]] = {}
    for record in measured.alone().records:
        if record.outcome is Outcome.OK:
            values = seen.setdefault((record.graph, record.gpu_model), collections.defaultdict(list))
            for name, read in _ALONE.items():
                if (value := read(record)) is not None:
                    values[name].append(value)
    return {key: {name: float(np.mean(found)) for name, found in values.items()} for key, values in seen.items()}


def _labels(measured: Measurements) -> tuple[dict[GraphDigest, str], dict[GraphDigest, str]]:
    groups = {record.graph: record.group for record in measured.records}
    families = {record.graph: record.family for record in measured.records if record.family is not None}
    return groups, families


def _lines_of_runs(measured: Measurements) -> list[list[Measurement]]:
    """Return the lines of each joint run, in order of first occurrence."""
    found: dict[tuple[object, ...], list[Measurement]] = {}
    for record in measured.joint().records:
        key = (record.id, record.repeat, record.gpu_model, record.mechanism)
        found.setdefault(key, []).append(record)
    return list(found.values())


def _run(lines: Sequence[Measurement], position: Callable[[GraphDigest, GPUModel], int]) -> Run:
    """Return a run from the lines of its tenants; those without a line are known from the first line's co-tenants."""
    first = lines[0]
    tenants = [
        Tenant(
            job=position(line.graph, line.gpu_model),
            threads=(line.thread_percentage or 100) / 100,
            priority=line.client_priority,
            speed=_speed(line),
        )
        for line in lines
    ]
    present = collections.Counter(line.graph for line in lines)
    present[first.graph] -= 1
    for other in first.co_tenants:
        if present[other.graph] > 0:
            present[other.graph] -= 1
        else:
            tenants.append(
                Tenant(job=position(other.graph, first.gpu_model), threads=(other.thread_percentage or 100) / 100)
            )
    ran = all(line.outcome is Outcome.OK for line in lines)
    return Run(mechanism=str(first.mechanism), tenants=tuple(tenants), ran=ran)


def _speed(line: Measurement) -> float:
    value = line.values.normalized_speed
    return float("nan") if value is None or line.outcome is not Outcome.OK else float(value)
