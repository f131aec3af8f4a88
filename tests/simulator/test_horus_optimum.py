"""Optima of a few jobs: the bound holds, is reached where it can be, and is the least of all assignments."""

import itertools
import math
from collections.abc import Mapping, Sequence

import pytest

from cotenant_api import errors, prediction
from cotenant_predictor.colocation import speeds
from cotenant_simulator.engine import jobs
from cotenant_simulator.horus import optima, optimum, population, published
from simulator import jobs_kit


def mix() -> Mapping[str, prediction.Prediction]:
    found = {"small": 25.0, "middle": 45.0, "large": 70.0}
    return {
        name: jobs_kit.believed(jobs_kit.needs(percent), name=name).model_copy(
            update={"by_gpu": {published.GPU_MODEL: jobs_kit.needs(percent)}}
        )
        for name, percent in found.items()
    }


def drawn(count: int, *, seed: int = 1) -> Sequence[jobs.Job]:
    return population.drawn(mix(), seed=seed, sigma=0.0, count=count)


def least(given: Sequence[jobs.Job], gpus: int) -> float:
    """The best of all assignments, by SM time, places and the longest job."""
    best = math.inf
    seconds = [job.seconds[published.GPU_MODEL] for job in given]
    busy = [
        job.kind.real[published.GPU_MODEL].sm_activity.q50 / 100 * job.seconds[published.GPU_MODEL] for job in given
    ]
    for where in itertools.product(range(gpus), repeat=len(given)):
        loads = [0.0] * gpus
        places = [0.0] * gpus
        for gpu, work, time in zip(where, busy, seconds, strict=True):
            loads[gpu] += work
            places[gpu] += time / published.MAX_TENANTS
        best = min(best, max(*loads, *places, *seconds))
    return best


@pytest.mark.parametrize("seed", range(5))
def test_bound_is_the_least_of_all_assignments(seed: int) -> None:
    given = drawn(7, seed=seed)
    assert optimum.solve(given, gpus=2).bound_seconds == pytest.approx(least(given, 2), rel=2 * optimum.GAP)


def test_every_job_has_a_gpu_that_there_is() -> None:
    found = optimum.solve(drawn(24), gpus=3)
    assert len(found.gpu_of) == 24
    assert set(found.gpu_of) == {0, 1, 2}


def test_nothing_is_shorter_than_the_bound() -> None:
    found = optimum.best(optimum.Instance(gpus=3, jobs=12), mix(), speeds.SpeedModel(), seed=1)
    for outcome in (found.found, *found.ways.values()):
        assert outcome.makespan_seconds >= found.bound_seconds * (1 - optimum.GAP)


def test_schedule_of_few_jobs_reaches_the_bound() -> None:
    found = optimum.best(optimum.Instance(gpus=6, jobs=6), mix(), speeds.SpeedModel(), seed=1)
    longest = max(job.seconds[published.GPU_MODEL] for job in drawn(6))
    assert found.bound_seconds == pytest.approx(longest)
    assert found.found.makespan_seconds == pytest.approx(longest)


def test_same_seed_gives_the_same_optimum() -> None:
    first, second = (
        optimum.best(optimum.Instance(gpus=2, jobs=8), mix(), speeds.SpeedModel(), seed=3) for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(("gpus", "count", "field"), [(13, 24, "gpus"), (12, 25, "jobs"), (0, 1, "gpus")])
def test_larger_instances_are_refused(gpus: int, count: int, field: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=field):
        optimum.Instance(gpus=gpus, jobs=count)


def test_page_tells_how_often_the_bound_is_reached() -> None:
    instance = optimum.Instance(gpus=6, jobs=6)
    best = optimum.best(instance, mix(), speeds.SpeedModel(), seed=1)
    shown = optima.page_of({instance: {1: best}}, model="model-1", command="cotenant simulate horus --optimum")
    (table,) = shown.tables
    assert "in 1 of them the bound is reached" in table.note
    assert [row[0] for row in table.rows] == ["bound", "its schedule", *optimum.WAYS]
