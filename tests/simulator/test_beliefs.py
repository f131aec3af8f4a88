"""What is believed of jobs, and where a gain is lost."""

import dataclasses
import math

import pytest

from cotenant_api import prediction
from cotenant_simulator.engine import jobs
from cotenant_simulator.prediction_error import beliefs, crossing
from simulator import jobs_kit

MOST = {jobs_kit.MODEL: 9500}
AXES = tuple(beliefs.Of)


def believed(
    *given: jobs.Job, of: beliefs.Of = beliefs.Of.BOTH, sigma: float = 0.3, seed: int = 1
) -> list[prediction.GPUPrediction]:
    found = beliefs.believed(given, of=of, sigma=sigma, seed=seed, most_mib=MOST)
    return [job.kind.predicted.by_gpu[jobs_kit.MODEL] for job in found if job.kind.predicted is not None]


def error(found: prediction.GPUPrediction, right: prediction.GPUPrediction) -> tuple[float, float]:
    """Logarithms of believed over right, of utilization and of memory."""
    busier = found.utilization.q50 / right.utilization.q50
    return math.log(busier), math.log(found.memory_mib.q50 / right.memory_mib.q50)


@pytest.mark.parametrize("of", AXES)
def test_without_an_error_what_was_predicted_is_believed(of: beliefs.Of) -> None:
    assert believed(jobs_kit.job("a", 30), of=of, sigma=0.0) == [jobs_kit.needs(30)]


def test_twice_the_sigma_is_twice_the_error_and_another_seed_another_one() -> None:
    job, right = jobs_kit.job("a", 10), jobs_kit.needs(10)
    small, large = (error(believed(job, sigma=sigma)[0], right)[0] for sigma in (0.2, 0.4))
    assert small != 0
    assert large == pytest.approx(2 * small)
    assert error(believed(job, sigma=0.2, seed=2)[0], right)[0] != small


def test_an_axis_is_wrong_alone_as_it_is_beside_the_other() -> None:
    job, right = jobs_kit.job("a", 10), jobs_kit.needs(10)
    by_axis = {of: error(believed(job, of=of)[0], right) for of in AXES}
    assert by_axis[beliefs.Of.UTILIZATION] == (by_axis[beliefs.Of.BOTH][0], 0.0)
    assert by_axis[beliefs.Of.MEMORY] == (0.0, by_axis[beliefs.Of.BOTH][1])


def test_jobs_of_one_kind_are_as_far_off_and_stay_of_one_kind() -> None:
    one = jobs_kit.job("a", 10)
    found = beliefs.believed(
        [one, dataclasses.replace(one, name="again")], of=beliefs.Of.BOTH, sigma=0.3, seed=1, most_mib=MOST
    )
    assert found[0].kind is found[1].kind
    assert [job.name for job in found] == ["a", "again"]


def test_what_jobs_really_need_stays() -> None:
    job = jobs_kit.job("a", 10, real=jobs_kit.needs(20))
    (found,) = beliefs.believed([job], of=beliefs.Of.BOTH, sigma=1.0, seed=1, most_mib=MOST)
    assert found.kind.real == job.kind.real
    assert found.seconds == job.seconds


def test_median_and_upper_bound_are_wrong_alike_up_to_the_whole_gpu() -> None:
    right = jobs_kit.needs(40, upper=60, memory_mib=8000)
    job = jobs_kit.job("a", 40)
    kind = dataclasses.replace(job.kind, predicted=jobs_kit.believed(right))
    given = dataclasses.replace(job, kind=kind)
    for seed in range(30):
        (found,) = believed(given, sigma=1.0, seed=seed)
        factor = found.utilization.q50 / 40
        assert found.utilization.upper == pytest.approx(min(100.0, 60 * factor)) or found.utilization.q50 == 100
        assert found.utilization.q50 <= found.utilization.upper <= 100
        assert found.memory_mib.q50 <= found.memory_mib.upper <= MOST[jobs_kit.MODEL]


def test_a_job_of_which_nothing_is_predicted_is_believed_nothing_of() -> None:
    job = jobs_kit.job("a", 10)
    given = dataclasses.replace(job, kind=dataclasses.replace(job.kind, predicted=None))
    assert believed(given) == []


def test_a_gain_is_lost_on_the_line_between_two_errors() -> None:
    for find in (crossing.first, crossing.last):
        assert find([0.0, 0.2, 0.4], [-4.0, -1.0, 3.0]) == pytest.approx(0.25)


@pytest.mark.parametrize(("changes", "at"), [([-3.0, -1.0], None), ([2.0, 3.0], 0.0)])
def test_a_gain_that_is_never_lost_and_one_that_never_was(changes: list[float], at: float | None) -> None:
    assert crossing.first([0.0, 1.0], changes) == crossing.last([0.0, 1.0], changes) == at


def test_a_loss_that_does_not_stay_is_none() -> None:
    changes = [-1.0, 1.0, -2.0]
    assert crossing.first([0.0, 1.0, 2.0], changes) == 0.5
    assert crossing.last([0.0, 1.0, 2.0], changes) is None


def test_a_gain_is_sure_before_the_mean_is_lost_and_lost_only_after() -> None:
    found = crossing.of([0.0, 1.0, 2.0, 3.0], [[-10.0, -12.0], [-1.0, -1.1], [9.0, 12.0], [30.0, 30.1]])
    assert found.sure is not None
    assert found.at is not None
    assert found.lost is not None
    assert found.sure < found.at < found.lost


def test_a_sigma_without_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="every sigma needs a change"):
        crossing.of([0.0, 1.0], [[1.0], []])
