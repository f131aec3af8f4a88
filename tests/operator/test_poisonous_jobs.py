"""A job that always breaks its GPU, among others: by the real queue and the operator's rule, in virtual time.

Nobody ever knows whose a fault was, unless a tenant was alone. Each job that a fault hits is made again at once.
"""

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_extender.ledger import ledger
from cotenant_operator.state import suspicions
from cotenant_operator.state.suspicions import Suspicion
from extender import builders, queueing

TENANTS = 3
BOUND = 2 * (TENANTS - 1)
"""Neighbours that one poisonous job takes down: those of its first fault, and those of its second."""
MOST = suspicions.MOST_FAULTS * (TENANTS - 1)
"""The same of one that faults when it pleases."""
STEP = 5.0
RUNS = (50, 2000)
"""How long jobs run that do nothing, in seconds."""
LONG_STEP, LONG_RUNS, LONG_STEPS = 60.0, (600, 4 * 3600), 720
"""The same of worlds in which runs take hours, for half a day."""
SEEDS, SEVERAL_SEEDS, CHOSEN_SEEDS, LONG_SEEDS = 30, 10, 6, 8
"""How many worlds there are: with one poisonous job, with several, with one that chooses, and with long runs."""
Ends = Iterator[tuple[float, bool]]
"""Of each run of a job: after how many seconds it ends, and whether with a fault; else it is evicted."""


def always(rng: random.Random) -> Ends:
    """After the same time in each run."""
    return itertools.repeat((rng.uniform(10, 300), True))


def at_random(rng: random.Random) -> Ends:
    """After a time that knows nothing of the time before."""
    return ((rng.expovariate(1 / 200), True) for _ in itertools.count())


def ever_later(rng: random.Random) -> Ends:
    """Each run is long enough to clear it of the fault before."""
    return ((rng.uniform(10, 60) * 3**run, True) for run in itertools.count())


def slowly(rng: random.Random) -> Ends:
    """After the same long time in each run: suspects of it are let together again before anybody is cleared."""
    return itertools.repeat((rng.uniform(1200, 7200), True))


def careful(rng: random.Random) -> Ends:
    """It lets itself be cleared, by a run that somebody else ends, before it faults again."""
    seconds = rng.uniform(10, 300)
    return itertools.cycle([(seconds, True), (2 * seconds + 2 * STEP, False)])


@dataclass
class Job:
    """One job, as it is made again and again.

    Attributes:
        poison: how its runs end, of one that breaks its GPU; None: it does not.
        ends: how this run does.
        runs_for: when it is done.
        began: since when it runs; None: it waits.
        named: how often a fault was shown to be its own.
    """

    name: str
    share: int
    runs_for: float
    poison: Ends | None = None
    ends: tuple[float, bool] = (math.inf, False)
    suspicion: Suspicion | None = None
    attempt: int = 0
    began: float | None = None
    gpu: str | None = None
    named: int = 0

    @property
    def pod(self) -> str:
        """Name of the pod of its attempt."""
        return f"{self.name}-{self.attempt}"


class World:
    """GPUs that are always full of jobs.

    Attributes:
        restarts: of jobs that did nothing, by the poisonous job that did it.
        blamed: jobs that were named for a fault.
        met: how often a suspect came to a suspect that was not cleared yet.
    """

    def __init__(
        self,
        seed: int,
        *,
        gpus: int,
        poisonous: int,
        how: Callable[[random.Random], Ends] = always,
        step: float = STEP,
        runs: tuple[float, float] = RUNS,
    ) -> None:
        self.step_seconds, self.runs, self.met = step, runs, 0
        self.rng, self.now, self.count = random.Random(seed), builders.NOW, 0  # noqa: S311
        self.source: ledger.Ledger = builders.cluster(nodes=1, gpus=gpus)
        self.jobs: list[Job] = []
        self.restarts: dict[str, int] = {}
        self.blamed: set[str] = set()
        for _ in range(poisonous):
            self.submit(poison=how(self.rng))

    def submit(self, *, poison: Ends | None = None) -> None:
        """A user creates a job."""
        self.count += 1
        name = f"bad{self.count}" if poison else f"good{self.count}"
        job = Job(name, self.rng.choice([10, 20, 30, 33]), self.rng.uniform(*self.runs), poison)
        self.jobs.append(job)
        self.make(job)

    def make(self, job: Job) -> None:
        """A pod of the next attempt, as the operator asks for it."""
        job.attempt, job.began, job.gpu = job.attempt + 1, None, None
        job.ends = next(job.poison) if job.poison else (job.runs_for, False)
        alone = job.suspicion is not None and job.suspicion.alone
        raw = builders.pod(job.pod, 100 if alone else job.share, annotations=self.notes(job), created=self.now)
        builders.put(self.source, raw, now=self.now)

    def step(self) -> None:
        """Time passes: jobs end, GPUs break, and the queue places who fits."""
        self.now += self.step_seconds
        self.source.lease(NodeName("n0"), self.now, now=self.now)
        self.source.tick(now=self.now)
        while sum(job.began is None for job in self.jobs) < 2:
            self.submit()
        for job in list(self.jobs):
            ran = 0.0 if job.began is None else self.now - job.began
            if job.began is None or ran < job.ends[0]:
                continue
            if job.ends[1]:
                self.fault(job)
                continue
            self.leave(job)
            if job.poison is None:
                self.jobs.remove(job)
            else:
                job.suspicion = suspicions.after(job.suspicion, None, int(ran))
                self.make(job)
        self.place()

    def fault(self, culprit: Job) -> None:
        """All tenants of the GPU fail."""
        hit = [job for job in self.jobs if job.gpu == culprit.gpu and job.began is not None]
        for job in hit:
            ran = int(self.now - (job.began or self.now))
            self.leave(job)
            if len(hit) == 1:
                job.named += 1
                self.blamed.add(job.name)
            else:
                job.suspicion = suspicions.after(job.suspicion, f"f{self.now}", ran)
            if job is not culprit:
                self.restarts[culprit.name] = self.restarts.get(culprit.name, 0) + 1
        for job in hit:
            self.make(job)

    def leave(self, job: Job) -> None:
        """Its pod ends, and is deleted."""
        raw = builders.bound(job.pod, job.share, "n0", str(job.gpu), phase="Failed", version=3)
        builders.put(self.source, raw, now=self.now)
        self.source.pod_gone(PodUID(f"uid-{job.pod}"))

    def place(self) -> None:
        """A pass of the queue; what it lifts runs at once."""
        for lift in queueing.run(self.source, now=self.now).lifts:
            if lift.earmark is None:
                continue
            job = next(job for job in self.jobs if job.pod == lift.record.name)
            (booked,) = lift.earmark.placed.gpus
            self.check(job, booked.uuid)
            job.began, job.gpu = self.now, booked.uuid
            raw = builders.bound(job.pod, booked.share, "n0", booked.uuid)
            raw["metadata"]["annotations"] |= self.notes(job)
            raw["metadata"]["resourceVersion"] = "2"
            builders.put(self.source, raw, now=self.now)

    def notes(self, job: Job) -> dict[str, str]:
        """What the operator writes on its pods."""
        held = job.suspicion
        apart = held is not None and held.suspected and not held.alone
        return {names.SUSPECT_SECONDS: str(held.apart_seconds)} if held is not None and apart else {}

    def check(self, job: Job, gpu: str) -> None:
        """Two suspects of one GPU: one of them has run for as long as it had to."""
        for other in self.jobs:
            if other is job or other.gpu != gpu or other.began is None:
                continue
            if job.suspicion is None or not job.suspicion.suspected:
                continue
            assert not job.suspicion.alone
            if other.suspicion is not None and other.suspicion.suspected:
                assert self.now - other.began >= other.suspicion.apart_seconds
                self.met += not other.suspicion.outlived(self.now - other.began)


@functools.cache
def after_an_hour(seed: int) -> World:
    """One poisonous job among others; nobody changes the world any more."""
    world = World(seed, gpus=3, poisonous=1)
    for _ in range(720):
        world.step()
    return world


@pytest.mark.parametrize("seed", range(SEEDS))
def test_poisonous_job_is_alone_after_it_has_met_two_sets_of_neighbours(seed: int) -> None:
    world = after_an_hour(seed)
    (bad,) = (job for job in world.jobs if job.poison)
    assert world.restarts.get(bad.name, 0) <= BOUND
    # Who waits for a GPU to itself takes nobody down.
    assert bad.named or (bad.suspicion is not None and bad.suspicion.alone)
    assert world.blamed <= {bad.name}


@pytest.mark.parametrize("how", [at_random, ever_later, careful])
@pytest.mark.parametrize("seed", range(CHOSEN_SEEDS))
def test_however_a_job_chooses_when_to_fault_few_neighbours_go_down_before_it_is_alone(
    seed: int, how: Callable[[random.Random], Ends]
) -> None:
    world = World(seed, gpus=3, poisonous=1, how=how)
    for _ in range(1200):
        world.step()
    (bad,) = (job for job in world.jobs if job.poison)
    assert world.restarts.get(bad.name, 0) <= MOST
    assert world.blamed <= {bad.name}


@functools.cache
def after_half_a_day(seed: int) -> World:
    """One job that faults after 20 minutes to 2 hours, among jobs that run for up to 4 hours."""
    world = World(seed, gpus=3, poisonous=1, how=slowly, step=LONG_STEP, runs=LONG_RUNS)
    for _ in range(LONG_STEPS):
        world.step()
    return world


@pytest.mark.parametrize("seed", range(LONG_SEEDS))
def test_job_that_faults_after_hours_is_alone_after_two_sets_of_neighbours(seed: int) -> None:
    world = after_half_a_day(seed)
    (bad,) = (job for job in world.jobs if job.poison)
    assert world.restarts.get(bad.name, 0) <= BOUND
    assert bad.named or (bad.suspicion is not None and bad.suspicion.alone)
    assert world.blamed <= {bad.name}


def test_suspects_of_long_runs_do_meet_again_before_they_are_cleared() -> None:
    """Suspects are kept apart for half an hour at most: so the bound above rests on no separation for good."""
    assert sum(after_half_a_day(seed).met for seed in range(LONG_SEEDS)) > 0


def test_most_poisonous_jobs_are_named_for_their_fault_within_an_hour() -> None:
    assert sum(len(after_an_hour(seed).blamed) for seed in range(SEEDS)) >= 24


@pytest.mark.parametrize("seed", range(SEVERAL_SEEDS))
def test_each_of_several_poisonous_jobs_is_found_and_nobody_else_is_blamed(seed: int) -> None:
    world = World(seed, gpus=5, poisonous=3)
    for _ in range(900):
        world.step()
    bad = {job.name for job in world.jobs if job.poison}
    assert world.blamed <= bad
    assert sum(world.restarts.values()) <= BOUND * len(bad)
