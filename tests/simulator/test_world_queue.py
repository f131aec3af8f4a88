"""Promises, delays and evictions in virtual time."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUModel
from cotenant_simulator.engine import conditions, history, jobs
from simulator import jobs_kit

SLOW = conditions.Conditions(bind_seconds=5.0, start_seconds=20.0)


def starts(given: Sequence[jobs.Job], **changed: Any) -> list[float | None]:
    return [life.started for life in jobs_kit.ran(given, **changed).lives]


def test_job_runs_when_it_was_bound_and_has_started() -> None:
    (life,) = jobs_kit.ran([jobs_kit.job("a", 90)], under=SLOW).lives
    assert (life.started, life.ended, life.ran) == (25, 1025, 1020)


def test_promised_gpu_is_kept_from_others() -> None:
    given = [jobs_kit.job("a", 60, seconds=100), jobs_kit.job("b", 60, arrives=1.0)]
    assert starts(given, under=SLOW) == [25, 125 + 25]


def test_promise_is_taken_back_for_a_job_of_higher_priority() -> None:
    given = [jobs_kit.job("low", 60), jobs_kit.job("urgent", 60, seconds=100, arrives=2.0, priority=5)]
    found = jobs_kit.ran(given, under=SLOW)
    assert [life.started for life in found.lives] == [27 + 100 + 25, 27]
    assert found.counts.evictions == 0


def test_gang_is_promised_its_gpus_together() -> None:
    gang = jobs_kit.job("gang", 60, seconds=100, replicas=2)
    assert starts([gang, jobs_kit.job("b", 60, arrives=1.0)], nodes=2, under=SLOW) == [25, 125 + 25]


@pytest.mark.parametrize("wrong", [{"bind_seconds": -1.0}, {"bind_seconds": 300.0}, {"start_seconds": -1.0}])
def test_delay_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInputError, match=next(iter(wrong))):
        conditions.Conditions(**wrong)


def test_job_that_was_shown_to_an_autoscaler_in_vain_is_placed_when_there_is_room() -> None:
    first, second = jobs_kit.job("first", 60, seconds=7), jobs_kit.job("second", 60)
    ticks = [jobs_kit.job(f"tick{index}", 10, seconds=1, arrives=float(index)) for index in range(1, 6)]
    found = jobs_kit.ran([first, second, *ticks], queue={"scaleUpAfterSeconds": 1})
    assert found.lives[1].started == 7


def urgent(**changed: Any) -> jobs.Job:
    return jobs_kit.job("urgent", 60, **{"seconds": 100, "arrives": 250.0, "priority": 5, **changed})


def evicted(*given: jobs.Job, **changed: Any) -> history.History:
    return jobs_kit.ran([*given, urgent()], **changed)


def test_job_is_evicted_for_one_of_higher_priority_and_comes_again_from_the_beginning() -> None:
    low, high = evicted(jobs_kit.job("low", 60)).lives
    assert (high.started, high.ended) == (250, 350)
    assert (low.evictions, low.lost, low.attempts, low.ended) == (1, 250, 2, 350 + 1000)


def test_evicted_job_begins_at_its_last_checkpoint() -> None:
    low = evicted(jobs_kit.job("low", 60, checkpoint_seconds=200.0)).lives[0]
    assert (low.lost, low.ended) == (50, 350 + 800)


def test_job_of_the_same_priority_waits() -> None:
    assert starts([jobs_kit.job("low", 60, priority=5), urgent()]) == [0, 1000]


def test_no_more_jobs_are_evicted_than_are_in_the_way() -> None:
    found = evicted(jobs_kit.job("a", 60), jobs_kit.job("b", 30))
    assert [life.evictions for life in found.lives] == [1, 0, 0]


def test_job_is_not_evicted_before_it_has_run_for_its_minimum() -> None:
    low, high = evicted(jobs_kit.job("low", 60, minimum_run_seconds=400)).lives
    assert (low.evictions, high.started) == (1, 400)


def test_minimum_of_a_job_counts_up_to_that_of_the_policy() -> None:
    job = jobs_kit.job("low", 60, minimum_run_seconds=400)
    low, high = evicted(job, queue={"maxMinimumRunSeconds": 300}).lives
    assert (low.evictions, high.started) == (1, 300)


def test_gang_is_evicted_whole_and_comes_again_after_a_while() -> None:
    gang, _ = evicted(jobs_kit.job("gang", 60, replicas=2), nodes=2).lives
    assert (gang.evictions, gang.attempts, gang.ended) == (1, 2, 350 + 1000)


def test_victims_are_found_for_all_who_may_have_some() -> None:
    low = [jobs_kit.job(f"low{index}", 60) for index in range(6)]
    high = [urgent(seconds=1000) for _ in range(6)]
    found = jobs_kit.ran([*low, *high], gpus=6)
    assert all((life.started or 0) < 260 for life in found.lives[6:])
    assert found.counts.evictions == 6


def test_job_that_a_paused_policy_places_nowhere_says_so() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 60)], paused=True)
    assert found.lives[0].why.startswith("WaitingForTurn: PackingPolicy default is paused")
    assert found.counts.never_placed == 1


def test_job_that_asks_for_a_gpu_model_that_is_not_there_says_so() -> None:
    given = jobs_kit.job("a", 60)
    given = dataclasses.replace(given, seconds={GPUModel("NVIDIA-B"): 10.0})
    assert jobs_kit.ran([given]).lives[0].why.startswith("GPUModelMismatch:")
