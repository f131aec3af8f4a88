"""The best schedule of a few jobs: a bound that a mixed-integer program proves, and a schedule that comes near it.

    minimise C    with    sum_g x_jg = 1                                for every job j
                          sum_j need_rj s_j x_jg <= capacity_r C        for every GPU g and resource r

x_jg: whether job j has GPU g; s_j: how long it runs alone. Resources: SM time and memory bandwidth (1 of each), memory,
and places for jobs (the policy's). By the model of co-location (the prior of `cotenant_predictor.colocation`) jobs lose
by a lack of these alone, so that no schedule that leaves jobs where they start is shorter than C, nor than the longest
job. The assignment is then played GPU by GPU by some rules of dispatch, and the shortest counts: the optimum lies
between the two. Solved by scipy's HiGHS. Pure; no clock: the solver stops after so many nodes.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import optimize, sparse

from cotenant_api import errors, prediction
from cotenant_predictor import devices
from cotenant_predictor.colocation import speeds
from cotenant_predictor.trees import Array
from cotenant_simulator.engine import jobs, ways
from cotenant_simulator.horus import bounds, experiment, population, published, settings

MOST_GPUS: Final = 12
MOST_JOBS: Final = 24
GAP: Final = 1e-3
"""Of the bound: what is nearer is equal."""
_NODES: Final = 2000
_TIGHT: Final = (100, 125, 150, 200, 300)
"""`maxUtilizationPercent` of the rules of dispatch that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """So many jobs of the study on so many GPUs, with exact predictions."""

    gpus: int
    jobs: int

    def __post_init__(self) -> None:
        for field, value, most in (("gpus", self.gpus, MOST_GPUS), ("jobs", self.jobs, MOST_JOBS)):
            if not 1 <= value <= most:
                raise errors.InvalidInputError(field, value, f"must be 1 to {most}: larger ones take too long")


INSTANCES: Final = (Instance(gpus=12, jobs=24), Instance(gpus=6, jobs=24), Instance(gpus=3, jobs=24))
"""The largest, and down to as many jobs for each GPU as in the study."""
WAYS: Final = (settings.BASE, settings.HORUS, settings.COTENANT, settings.DENSE, settings.DENSE_LONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """What the program says.

    Attributes:
        bound_seconds: no schedule is shorter.
        gpu_of: of each job.
    """

    bound_seconds: float
    gpu_of: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A schedule's figures."""

    makespan_seconds: float
    utilization_percent: float
    work_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """One instance with one seed.

    Attributes:
        bound_seconds: no schedule is shorter.
        found: the schedule that the program's assignment gives.
        ways: what `WAYS` come to.
    """

    bound_seconds: float
    found: Outcome
    ways: Mapping[str, Outcome]

    @property
    def exact(self) -> bool:
        """Whether a schedule reaches the bound, which then is the optimum."""
        shortest = min(one.makespan_seconds for one in (self.found, *self.ways.values()))
        return shortest <= self.bound_seconds * (1 + GAP)


def best(instance: Instance, mix: Mapping[str, prediction.Prediction], model: speeds.SpeedModel, *, seed: int) -> Best:
    """One instance; the same arguments give the same."""
    given = population.drawn(mix, seed=seed, sigma=0.0, count=instance.jobs)
    solved = solve(given, gpus=instance.gpus)
    busy = bounds.of(given, gpus=instance.gpus).busy_seconds

    def outcome(makespan: float, utilization: float) -> Outcome:
        whole = instance.gpus * makespan
        return Outcome(makespan_seconds=makespan, utilization_percent=utilization, work_percent=100 * busy / whole)

    played = {}
    for name in WAYS:
        setting = settings.named(name)
        ordered = given
        if setting.classes is not None:
            ordered = population.in_classes(given, setting.classes, seed=seed, sigma=0.0)
        run = experiment.played(setting, ordered, model, gpus=instance.gpus)
        played[name] = outcome(run.makespan_seconds, run.utilization_percent)
    return Best(
        bound_seconds=solved.bound_seconds,
        found=outcome(*_played(given, solved, model, gpus=instance.gpus)),
        ways=played,
    )


def solve(given: Sequence[jobs.Job], *, gpus: int) -> Solution:
    """Return the program, for jobs that are all there from the beginning.

    Raises:
        InvalidInputError: the solver finds no assignment.
    """
    needs, capacities = _needs(given)
    count = len(given)
    # Jobs by work, so that the first few, which GPUs are told apart by, are the largest.
    order = np.argsort(-needs[0], kind="stable")
    columns = count * gpus + 1
    once = sparse.hstack([sparse.kron(sparse.eye(count), np.ones((1, gpus))), sparse.csr_matrix((count, 1))])
    limits = []
    for row, capacity in zip(needs, capacities, strict=True):
        placed = sparse.kron(sparse.csr_matrix(row[order]), sparse.eye(gpus))
        limits.append(sparse.hstack([placed, np.full((gpus, 1), -capacity)]))
    upper = np.ones(columns)
    for place in range(min(count, gpus)):
        upper[place * gpus + place + 1 : (place + 1) * gpus] = 0
    upper[-1] = np.inf
    longest = max(job.seconds[published.GPU_MODEL] for job in given)
    found = optimize.milp(
        np.eye(1, columns, columns - 1)[0],
        integrality=np.r_[np.ones(columns - 1), 0],
        bounds=optimize.Bounds(np.zeros(columns), upper),
        constraints=[
            optimize.LinearConstraint(once, 1, 1),
            optimize.LinearConstraint(sparse.vstack(limits), -np.inf, 0),
        ],
        options={"mip_rel_gap": GAP, "node_limit": _NODES},
    )
    if found.x is None:
        raise errors.InvalidInputError("jobs", count, f"must fit {gpus} GPUs: {found.message}")
    chosen = found.x[:-1].reshape(count, gpus).argmax(axis=1)
    gpu_of = np.empty(count, dtype=int)
    gpu_of[order] = chosen
    return Solution(bound_seconds=max(float(found.mip_dual_bound), longest), gpu_of=[int(gpu) for gpu in gpu_of])


def _needs(given: Sequence[jobs.Job]) -> tuple[Array, Array]:
    """Of each resource, times seconds, shape (n_resources, n_jobs), and how much of it a GPU has."""
    (device,) = devices.select([published.GPU_MODEL])
    rows = []
    for job in given:
        real, seconds = job.kind.real[published.GPU_MODEL], job.seconds[published.GPU_MODEL]
        needed = (real.sm_activity.q50 / 100, real.dram_activity.q50 / 100, real.memory_mib.q50 / device.memory_mib, 1)
        rows.append([need * seconds for need in needed])
    return np.array(rows).T, np.array([1.0, 1.0, 1.0, published.MAX_TENANTS])


def _played(given: Sequence[jobs.Job], solved: Solution, model: speeds.SpeedModel, *, gpus: int) -> tuple[float, float]:
    """Makespan in seconds and utilization in percent."""
    longest, busy = 0.0, 0.0
    for gpu in range(gpus):
        here = [job for job, where in zip(given, solved.gpu_of, strict=True) if where == gpu]
        if here:
            runs = [experiment.played(rule, _longest_first(here), model, gpus=1) for rule in _rules()]
            shortest = min(runs, key=lambda run: run.makespan_seconds)
            longest = max(longest, shortest.makespan_seconds)
            busy += shortest.makespan_seconds * shortest.utilization_percent
    return longest, busy / (gpus * longest)


def _rules() -> Sequence[settings.Setting]:
    return [
        settings.Setting(
            name=f"at most {percent} %",
            way=ways.Median(),
            packing={
                "metric": "SMActivity",
                "maxUtilizationPercent": percent,
                "threadPartition": "None",
            },
        )
        for percent in _TIGHT
    ]


def _longest_first(given: Sequence[jobs.Job]) -> Sequence[jobs.Job]:
    ranked = sorted(given, key=lambda job: job.seconds[published.GPU_MODEL])
    return [
        dataclasses.replace(job, priority=rank, minimum_run_seconds=population.NEVER) for rank, job in enumerate(ranked)
    ]
