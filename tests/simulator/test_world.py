"""Jobs that share GPUs in virtual time."""

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant_api import dljob
from cotenant_simulator.engine import history, jobs, ways, world
from simulator import jobs_kit


def ends(found: history.History) -> list[float | None]:
    return [life.ended for life in found.lives]


def test_job_alone_takes_the_time_that_it_takes_alone() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 40, seconds=500, arrives=100)])
    assert ends(found) == [600]
    assert found.makespan_seconds == 500
    assert found.utilization_percent == pytest.approx(40)


def test_jobs_that_fit_beside_each_other_run_at_full_speed() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 40), jobs_kit.job("b", 50)])
    assert ends(found) == [1000, 1000]
    assert found.utilization_percent == pytest.approx(90)


def test_jobs_that_need_more_than_a_gpu_together_slow_each_other_down_until_one_ends() -> None:
    given_jobs = [jobs_kit.job("a", 80, seconds=1000), jobs_kit.job("b", 80, seconds=500)]
    found = jobs_kit.ran(given_jobs, max_utilization_percent=200)
    # Each has half of the SMs and needs 0.8 of them: speed 0.625, so b ends at 500 / 0.625, and a is alone then.
    assert ends(found) == [pytest.approx(800 + 500), pytest.approx(800)]
    assert [life.slowest for life in found.lives] == [0.625, 0.625]


def test_job_that_comes_later_slows_down_only_what_is_left_of_the_first() -> None:
    given_jobs = [jobs_kit.job("a", 100, seconds=100), jobs_kit.job("b", 100, seconds=100, arrives=40)]
    found = jobs_kit.ran(given_jobs, max_utilization_percent=200)
    assert ends(found) == [pytest.approx(160), pytest.approx(200)]


def test_whole_gpus_are_never_shared() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 10), jobs_kit.job("b", 10)], way=ways.Slot())
    assert sorted(end or 0 for end in ends(found)) == [1000, 2000]


def test_no_more_jobs_share_a_gpu_than_the_policy_allows() -> None:
    found = jobs_kit.ran([jobs_kit.job(name, 10) for name in "abcd"])
    assert sorted(end or 0 for end in ends(found)) == [1000, 1000, 1000, 2000]
    assert max(moment.running for moment in found.moments) == 3


def test_job_on_several_gpus_holds_all_of_them() -> None:
    pair = jobs_kit.job("pair", 90, gpus=2)
    found = jobs_kit.ran([pair, jobs_kit.job("a", 10, arrives=1)], gpus=2)
    assert ends(found) == [1000, 2000]
    assert found.moments[1].occupied == 2


def test_reactive_job_is_measured_alone_and_then_packed() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 30), jobs_kit.job("b", 30)], way=ways.Reactive())
    # Each has the GPU for its minute, then they share it; what they did in that minute is lost.
    assert [life.attempts for life in found.lives] == [2, 2]
    assert sorted(end or 0 for end in ends(found)) == [2 * ways.MEASURE_SECONDS + 1000] * 2
    assert [life.ran for life in found.lives] == [ways.MEASURE_SECONDS + 1000] * 2


def test_reactive_job_that_ends_within_its_minute_is_not_started_again() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 30, seconds=40)], way=ways.Reactive())
    assert (found.lives[0].ended, found.lives[0].attempts) == (40, 1)


def test_prediction_that_was_too_high_is_corrected_for_the_next_job_of_its_kind() -> None:
    over = jobs_kit.job("over", 90, real=jobs_kit.needs(30))
    after = [dataclasses.replace(over, name=name, arrives=1001.0) for name in "ab"]
    assert sorted(life.started or 0 for life in jobs_kit.ran([over, *after]).lives) == [0, 1001, 2001]
    corrected = jobs_kit.ran([over, *after], way=ways.Hybrid())
    assert [life.started for life in corrected.lives] == [0, 1001, 1001]


def test_correction_changes_nothing_for_jobs_that_came_before_the_measured_one_ended() -> None:
    over = jobs_kit.job("over", 90, real=jobs_kit.needs(30))
    found = jobs_kit.ran([over, dataclasses.replace(over, name="later", arrives=100.0)], way=ways.Hybrid())
    assert found.lives[1].started == 1000


def test_job_without_enough_memory_comes_again_with_more_until_it_suffices() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 30, real=jobs_kit.needs(30, memory_mib=2000))])
    (life,) = found.lives
    # 1,000 MiB, 1,500 and 2,250.
    assert (life.out_of_memory, life.attempts, life.failed) == (2, 3, False)
    assert life.ended == 2 * world.START_SECONDS + 1000


def test_job_that_no_gpu_holds_fails_after_it_had_a_whole_one() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 30, real=jobs_kit.needs(30, memory_mib=2 * jobs_kit.GPU_MIB))])
    (life,) = found.lives
    assert (life.failed, life.ended, life.attempts) == (True, None, dljob.OOMPolicy().max_resubmissions + 2)


def test_without_limits_the_newcomer_lacks_the_memory_that_others_hold() -> None:
    large = jobs_kit.needs(30, memory_mib=8000)
    given_jobs = [jobs_kit.job("a", 30, real=large), jobs_kit.job("b", 20, real=large, arrives=10)]
    found = jobs_kit.ran(given_jobs, mechanism="TimeSlicing")
    assert [life.out_of_memory > 0 for life in found.lives] == [False, True]
    assert found.lives[1].ended is not None


def job_lists() -> st.SearchStrategy[list[jobs.Job]]:
    one = st.tuples(st.integers(1, 100), st.integers(1, 5000), st.integers(0, 3000))
    return st.lists(one, min_size=1, max_size=12).map(
        lambda found: [
            jobs_kit.job(f"j{number}", percent, seconds=float(seconds), arrives=float(arrives))
            for number, (percent, seconds, arrives) in enumerate(found)
        ]
    )


def work(given_jobs: Sequence[jobs.Job]) -> float:
    """GPU seconds that the jobs keep busy."""
    return sum(one.seconds[jobs_kit.MODEL] * one.kind.real[jobs_kit.MODEL].utilization.q50 / 100 for one in given_jobs)


@settings(max_examples=60, deadline=None)
@given(job_lists(), st.integers(1, 3))
def test_work_is_neither_lost_nor_made(given_jobs: list[jobs.Job], gpus: int) -> None:
    found = jobs_kit.ran(given_jobs, gpus=gpus)
    done = found.utilization_percent / 100 * gpus * found.makespan_seconds
    assert done == pytest.approx(work(given_jobs), rel=1e-6)
    assert all(life.ran == pytest.approx(life.alone, rel=1e-6) for life in found.lives)


@settings(max_examples=40, deadline=None)
@given(job_lists(), st.integers(1, 3))
def test_overpacked_jobs_all_end_and_none_is_faster_than_alone(given_jobs: list[jobs.Job], gpus: int) -> None:
    found = jobs_kit.ran(given_jobs, gpus=gpus, max_utilization_percent=300)
    assert all(life.ended is not None and life.ran >= life.alone * (1 - 1e-9) for life in found.lives)
    assert all(moment.utilization <= gpus + 1e-9 for moment in found.moments)


def test_same_jobs_have_the_same_history() -> None:
    given_jobs = [jobs_kit.job(f"j{number}", 7 * number % 90 + 5, arrives=13.0 * number) for number in range(20)]
    first, second = (jobs_kit.ran(given_jobs, gpus=2, max_utilization_percent=200) for _ in range(2))
    assert first == second
