"""Jobs that are measured, by the operator's rules."""

import dataclasses
from typing import Any

import pytest

from cotenant_api.names import GPUModel, Namespace
from cotenant_api.prediction import GPUPrediction, Source
from cotenant_simulator.engine import growing, history, jobs, measuring, ways
from simulator import jobs_kit

OTHER = GPUModel("NVIDIA-B")


def unknown(name: str, percent: float, **changed: Any) -> jobs.Job:
    """A job of which nothing is predicted."""
    made = jobs_kit.job(name, percent, **changed)
    return dataclasses.replace(made, kind=dataclasses.replace(made.kind, predicted=None))


def ran(given: list[jobs.Job], missing: str, **changed: Any) -> history.History:
    return jobs_kit.ran(given, queue={"onMissingPrediction": missing}, **changed)


def test_job_without_a_prediction_gets_a_gpu_to_itself() -> None:
    found = ran([unknown("a", 30), unknown("b", 30)], "Exclusive")
    assert sorted(life.ended or 0 for life in found.lives) == [1000, 2000]


def test_job_without_a_prediction_is_held_where_the_policy_says_so() -> None:
    (life,) = ran([unknown("a", 30)], "Hold").lives
    assert (life.ended, life.failed, life.why) == (None, False, ways.HELD)


def test_job_without_a_prediction_is_measured_and_then_packed_where_the_policy_says_so() -> None:
    found = ran([unknown("a", 30), unknown("b", 30)], "Profile", gpus=2)
    assert [(life.measured, life.attempts, life.ended) for life in found.lives] == [(1, 2, 1060), (1, 2, 1060)]
    assert max(moment.occupied for moment in found.moments if moment.seconds >= ways.MEASURE_SECONDS) == 1


def test_gang_is_measured_as_one() -> None:
    found = ran([unknown("gang", 30, replicas=2)], "Profile", nodes=2)
    assert (found.lives[0].measured, found.lives[0].ended) == (1, 1060)


def test_job_of_several_gpus_a_pod_is_never_measured() -> None:
    found = ran([unknown("a", 30, gpus=2)], "Profile", gpus=2)
    assert (found.lives[0].measured, found.lives[0].ended) == (0, 1000)


def test_measured_job_keeps_its_checkpoints() -> None:
    found = ran([unknown("a", 30, checkpoint_seconds=50.0)], "Profile")
    assert (found.lives[0].lost, found.lives[0].ended) == (10, 60 + 950)


def test_placement_reactive_measures_every_job_whatever_is_predicted() -> None:
    found = jobs_kit.ran([jobs_kit.job("a", 30)], placement="Reactive")
    assert (found.lives[0].measured, found.lives[0].ended) == (1, 1060)


def test_correction_of_the_policy_is_the_hybrid_way() -> None:
    over = jobs_kit.job("over", 90, real=jobs_kit.needs(30))
    given = [over, *(dataclasses.replace(over, name=name, arrives=1001.0) for name in "ab")]
    assert jobs_kit.ran(given, correction="Hybrid") == jobs_kit.ran(given, way=ways.Hybrid())


def kind(real: GPUPrediction) -> jobs.Kind:
    predicted = jobs_kit.believed(jobs_kit.needs(90)).model_copy(
        update={"by_gpu": {jobs_kit.MODEL: jobs_kit.needs(90), OTHER: jobs_kit.needs(80)}}
    )
    return jobs.Kind(name="a", predicted=predicted, real={jobs_kit.MODEL: real, OTHER: real})


def test_profile_says_what_an_agent_sees_and_of_other_models_nothing() -> None:
    real = jobs_kit.needs(30, memory_mib=1000).model_copy(update={"thread_percentage": 40})
    found = measuring.profile(kind(real), frozenset({OTHER}))
    assert list(found.by_gpu) == [OTHER]
    row = found.by_gpu[OTHER]
    assert (row.utilization.upper, row.sm_activity.upper, row.dram_activity.upper) == (40, 40, 40)
    assert (row.memory_mib.upper, row.thread_percentage, found.source) == (1200, 100, Source.PROFILE)


def test_correction_changes_the_utilization_on_the_measured_model_alone() -> None:
    one = kind(jobs_kit.needs(30, memory_mib=5000))
    found = measuring.corrected(one, frozenset({OTHER}))
    assert found is not None
    assert found.by_gpu[jobs_kit.MODEL] == jobs_kit.needs(90)
    row = found.by_gpu[OTHER]
    assert (row.utilization.upper, row.sm_activity.upper, row.memory_mib.upper) == (40, 80, 1000)


def test_job_measured_on_one_gpu_model_stays_on_it() -> None:
    one = dataclasses.replace(unknown("a", 30), kind=kind(jobs_kit.needs(30)))
    asked = ways.Reactive().booking(one, ways.Past(measured=frozenset({OTHER})), jobs_kit.policy())
    assert asked is not None
    assert (asked.share, asked.gpu_models) == (40, frozenset({OTHER}))


def test_later_jobs_of_a_kind_book_the_memory_that_the_first_has_used() -> None:
    first = jobs_kit.job("a", 30, real=jobs_kit.needs(30, memory_mib=2000))
    given = [first, dataclasses.replace(first, name="b", arrives=5000.0)]
    found = jobs_kit.ran(given)
    assert [life.out_of_memory for life in found.lives] == [2, 0]
    apart = [first, dataclasses.replace(given[1], namespace=Namespace("other"))]
    assert [life.out_of_memory for life in jobs_kit.ran(apart).lives] == [2, 2]


def test_slots_learn_nothing_and_need_nothing() -> None:
    first = jobs_kit.job("a", 30, real=jobs_kit.needs(30, memory_mib=2000))
    assert jobs_kit.ran([first], way=ways.Slot()).counts.out_of_memory == 0


def test_memory_grows_until_no_shared_gpu_can_book_it_and_then_a_gpu_is_whole() -> None:
    grown = growing.shared(growing.NOTHING, booked_mib=6000, largest_mib=8000)
    assert (grown.memory_mib, grown.exclusive) == (9000, True)


@pytest.mark.parametrize(("larger", "expected"), [(16000, True), (8000, False)])
def test_job_that_had_a_whole_gpu_gets_a_larger_one_if_there_is_one(larger: int, expected: bool) -> None:
    usable = {jobs_kit.MODEL: 8000, OTHER: larger}
    grown = growing.alone(growing.NOTHING, gpu_mib=8000, usable=usable)
    assert (grown is not None) is expected
    if grown is not None:
        assert growing.roomy(grown, usable) == {OTHER}
