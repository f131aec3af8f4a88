"""Jobs together: the prior, what was learned, and what must hold whatever was learned."""

import itertools
import json
import warnings
from typing import Any

import numpy as np
import pytest

from cotenant_api.graph import Inference, Mode
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.colocation import learned, partners, prior, profiles, rows
from cotenant_predictor.colocation.speeds import SpeedModel
from cotenant_predictor.datasets import gavel
from cotenant_predictor.datasets.joint import Joint
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import prediction, step
from cotenant_predictor.training import colocation as training
from cotenant_predictor.training import corrections
from cotenant_predictor.trees import Array

MECHANISMS = sorted(prior.RESOURCES)
V100 = GPUModel("Tesla-V100-SXM2-16GB")


def job(**values: float) -> Array:
    """A job alone that keeps the GPU half busy."""
    usual = dict.fromkeys(profiles.SUMMED, 0.5) | {"memory": 0.1, "threads": 1.0, "priority": 0.0, "knee": 0.5}
    return np.array([{**usual, **values}.get(name, 1.0) for name in profiles.COLUMNS])


def group(*jobs: Array, absent: int = 0) -> Array:
    return profiles.together(np.array(jobs), absent=absent)


def random_jobs(count: int, seed: int = 0) -> Array:
    generator = np.random.default_rng(seed)
    shares = generator.random((count, len(profiles.COLUMNS)))
    shares[:, profiles.INDEX["memory"]] *= 0.2
    return profiles.with_settings(shares, threads=np.ones(count), priority=np.zeros(count))


@pytest.fixture(scope="module")
def v100() -> Joint:
    joint = gavel.load()
    return joint.where(lambda run: joint.jobs[run.tenants[0].job].gpu_model == V100)


@pytest.fixture(scope="module")
def model(v100: Joint) -> SpeedModel:
    return training.learn(v100.take(range(0, len(v100.runs), 4)), n_estimators=5)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_job_without_neighbours_has_its_whole_speed(mechanism: str) -> None:
    assert prior.speeds(group(job(utilization=1.0)), mechanism) == pytest.approx(1.0)
    assert SpeedModel().predict(group(job(), absent=2), mechanism).speed[0, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_order_of_the_tenants_changes_nothing_in_the_prior(mechanism: str) -> None:
    jobs = random_jobs(3)
    usual = prior.speeds(group(*jobs), mechanism)[0]
    for order in itertools.permutations(range(3)):
        assert prior.speeds(group(*jobs[list(order)]), mechanism)[0] == pytest.approx(usual[list(order)])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("seed", range(5))
def test_a_further_tenant_never_makes_anyone_faster_in_the_prior(mechanism: str, seed: int) -> None:
    jobs = random_jobs(4, seed)
    for count in range(1, 4):
        fewer = prior.speeds(group(*jobs[:count]), mechanism)[0]
        more = prior.speeds(group(*jobs[: count + 1]), mechanism)[0]
        assert (more[:count] <= fewer + 1e-12).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_smaller_share_of_the_threads_never_makes_a_job_faster(mechanism: str) -> None:
    found = [prior.speeds(group(job(threads=threads), job()), mechanism)[0, 0] for threads in (0.1, 0.3, 0.6, 1.0)]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_two_busy_jobs_take_turns_and_two_idle_ones_lose_nothing() -> None:
    busy, idle = job(utilization=1.0), job(utilization=0.3)
    assert prior.speeds(group(busy, busy), "TimeSlicing")[0] == pytest.approx([0.5, 0.5])
    assert prior.speeds(group(idle, idle), "TimeSlicing")[0] == pytest.approx([1.0, 1.0])
    assert prior.speeds(group(busy, idle), "TimeSlicing")[0] == pytest.approx([0.7, 1.0])


def test_a_job_of_normal_priority_leaves_the_rest_to_one_below() -> None:
    usual, below = job(smActivity=0.8, dramActivity=0.1), job(smActivity=0.8, dramActivity=0.1, priority=1.0)
    assert prior.speeds(group(usual, below), "MPS")[0] == pytest.approx([1.0, 0.25])


def test_mechanisms_compete_for_different_resources() -> None:
    jobs = (
        job(utilization=1.0, smActivity=0.2, dramActivity=0.2),
        job(utilization=1.0, smActivity=0.2, dramActivity=0.2),
    )
    assert prior.speeds(group(*jobs), "MPS")[0] == pytest.approx([1.0, 1.0])
    assert prior.speeds(group(*jobs), "TimeSlicing")[0] == pytest.approx([0.5, 0.5])


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(KeyError, match="Magic"):
        prior.speeds(group(job(), job()), "Magic")


def test_rows_of_a_pair_hold_the_neighbour_three_times_and_those_of_empty_places_nothing() -> None:
    jobs = random_jobs(2)
    found = rows.of(group(*jobs, absent=1), "MPS")
    own, others = found[:, : rows.N_OWN], found[:, rows.N_OWN : rows.N_OWN + rows.N_OTHERS]
    assert np.isnan(found[2]).all()
    assert others[0] == pytest.approx(np.tile(own[1], 3))
    assert found[:2, rows.NEIGHBOURS].tolist() == [1, 1]


def test_rows_of_three_jobs_add_up_largest_and_smallest_of_the_neighbours() -> None:
    found = rows.of(group(job(), job(utilization=0.2), job(utilization=0.9)), "MPS")
    values = dict(zip(rows.NAMES, found[0], strict=True))
    assert values["all_utilization"] == pytest.approx(1.1)
    assert (values["most_utilization"], values["least_utilization"]) == pytest.approx((0.9, 0.2))
    assert values["excess_utilization"] == pytest.approx(0.6)
    assert values["all_logKernelsPerSecond"] == pytest.approx(1 + np.log(2))


def test_a_learned_model_gives_the_same_whatever_the_order_of_tenants(v100: Joint, model: SpeedModel) -> None:
    tenants = v100.tenants()[:40]
    usual = model.predict(tenants, prior.UNRECORDED)
    turned = model.predict(tenants[::-1, ::-1], prior.UNRECORDED)
    for name in ("speed", "lower", "out_of_domain"):
        assert getattr(turned, name)[::-1, ::-1] == pytest.approx(getattr(usual, name))


def test_speeds_lie_between_almost_nothing_and_one_and_bounds_below_them(v100: Joint, model: SpeedModel) -> None:
    found = model.predict(v100.tenants(), prior.UNRECORDED)
    assert ((found.speed >= 0) & (found.speed <= 1)).all()
    assert ((found.lower <= found.speed) & (found.lower >= 0)).all()


def test_more_tenants_than_were_measured_are_out_of_domain(v100: Joint, model: SpeedModel) -> None:
    tenants = v100.tenants()[:1]
    three = np.concatenate([tenants, tenants[:, :1]], axis=1)
    assert not model.predict(tenants, prior.UNRECORDED).out_of_domain.any()
    assert model.predict(three, prior.UNRECORDED).out_of_domain.all()


def test_a_mechanism_that_was_not_measured_is_the_prior_and_out_of_domain(v100: Joint, model: SpeedModel) -> None:
    tenants = v100.tenants()[:5]
    found = model.predict(tenants, "MPS")
    assert found.speed == pytest.approx(prior.speeds(tenants, "MPS"))
    assert found.out_of_domain.all()
    assert np.isnan(found.lower).all()


def test_jobs_unlike_all_measured_ones_are_out_of_domain(model: SpeedModel) -> None:
    strange = group(job(logStepSeconds=9.0, logKernelsPerSecond=-5.0), job(logStepSeconds=9.0))
    assert model.predict(strange, prior.UNRECORDED).out_of_domain.all()


def test_jobs_whose_memory_does_not_suffice_do_not_fit(model: SpeedModel) -> None:
    found = model.predict(group(job(memory=0.6), job(memory=0.5)), prior.UNRECORDED)
    assert not found.fits.any()
    assert model.predict(group(job(memory=0.6), job(memory=0.4)), prior.UNRECORDED).fits.all()


def test_unknown_values_count_as_the_centre_of_what_was_measured(model: SpeedModel) -> None:
    known = group(job(), job())
    unknown = known.copy()
    unknown[..., profiles.INDEX["longKernels"]] = np.nan
    found = model.predict(unknown, prior.UNRECORDED)
    assert np.isfinite(found.speed).all()


def test_a_model_read_back_says_exactly_the_same(v100: Joint, model: SpeedModel) -> None:
    again = SpeedModel.from_state(json.loads(json.dumps(model.to_state())))
    for name in ("speed", "lower", "out_of_domain"):
        first = getattr(model.predict(v100.tenants(), prior.UNRECORDED), name)
        assert np.array_equal(getattr(again.predict(v100.tenants(), prior.UNRECORDED), name), first)


def test_learning_twice_gives_the_same_bytes(v100: Joint, model: SpeedModel) -> None:
    again = training.learn(v100.take(range(0, len(v100.runs), 4)), n_estimators=5)
    assert json.dumps(again.to_state()) == json.dumps(model.to_state())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda pool: pool.update(scale=[0.0] * len(pool["scale"])), "scale not positive"),
        (lambda pool: pool.update(slope=float("nan")), "not finite"),
        (lambda pool: pool.update(own=[]), "differ in columns"),
        (lambda pool: pool.update(maxTenants=0), "rests on jobs"),
        (lambda pool: pool.update(correction={"kind": "magic"}), "no such correction: magic"),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(model: SpeedModel, change: Any, message: Any) -> None:
    state = json.loads(json.dumps(model.to_state()))
    change(state["pools"][prior.UNRECORDED])
    with pytest.raises(ValueError, match=message):
        SpeedModel.from_state(state)


def test_a_state_of_an_unknown_mechanism_is_refused(model: SpeedModel) -> None:
    state = json.loads(json.dumps(model.to_state()))
    state["pools"]["Magic"] = state["pools"][prior.UNRECORDED]
    with pytest.raises(ValueError, match="no such mechanism: Magic"):
        SpeedModel.from_state(state)


def test_too_few_runs_teach_nothing(v100: Joint) -> None:
    assert not training.learn(v100.take(range(3))).pools


def test_what_was_measured_alone_goes_before_the_formula(build: Any, h200: Device) -> None:
    found = step.of(build.graph(build.matmul(), build.copy()), (h200,))
    usual = profiles.of_step(found, 0)
    measured = profiles.of_step(found, 0, {"utilization": 77.0, "memoryPeakMiB": h200.memory_mib / 2})
    assert measured[profiles.INDEX["utilization"]] == pytest.approx(0.77)
    assert measured[profiles.INDEX["host"]] == pytest.approx(0.23)
    assert measured[profiles.INDEX["memory"]] == pytest.approx(0.5)
    assert usual[profiles.INDEX["knee"]] == measured[profiles.INDEX["knee"]]


def test_a_slower_step_than_predicted_makes_every_activity_smaller(build: Any, h200: Device) -> None:
    found = step.of(build.graph(build.matmul(), build.copy()), (h200,))
    usual = profiles.of_step(found, 0)
    slower = profiles.of_step(found, 0, {"stepMilliseconds": 3e3 * float(found.step_seconds[0])})
    for name in ("utilization", "smActivity", "dramActivity"):
        assert slower[profiles.INDEX[name]] < usual[profiles.INDEX[name]]


def test_requests_that_leave_the_gpu_idle_count_with_the_time_between_them(build: Any, h200: Device) -> None:
    asked = {"requestsPerSecond": 1.0, "samplesPerRequest": 1}
    graph = build.graph(mode=Mode.INFERENCE, batch_size=1, inference=Inference.model_validate(asked))
    found = step.of(graph, (h200,))
    usual = profiles.of_step(found, 0)
    measured = profiles.of_step(found, 0, {"stepMilliseconds": 1e3 * float(found.step_seconds[0])})
    assert usual[profiles.INDEX["logStepSeconds"]] == pytest.approx(0.0)
    assert measured[profiles.INDEX["utilization"]] == pytest.approx(usual[profiles.INDEX["utilization"]])
    assert measured[profiles.INDEX["host"]] > 0.9


def test_a_stored_prediction_says_as_much_as_it_knows(build: Any, h200: Device) -> None:
    stored = prediction.predict(build.graph(build.matmul(), build.copy()), [h200]).by_gpu[h200.name]
    found = profiles.of_prediction(stored, h200.memory_mib)
    usual = profiles.of_step(step.of(build.graph(build.matmul(), build.copy()), (h200,)), 0)
    known = np.isfinite(found)
    assert known.sum() >= 10
    assert found[known] == pytest.approx(usual[known], rel=0.05, abs=0.02)


def test_the_shipped_pairs_are_as_many_as_ran(v100: Joint) -> None:
    joint = gavel.load()
    count = dict.fromkeys(gavel.GPU_MODELS.values(), 0)
    for run in joint.runs:
        count[joint.jobs[run.tenants[0].job].gpu_model] += run.ran
    assert list(count.values()) == [306, 340, 330]
    assert {job.gpu_model for job in joint.jobs} <= set(devices.load())
    assert len({job.group for job in joint.jobs}) == len({job.family for job in joint.jobs}) == 7


def test_a_hundred_candidate_gpus_are_judged_at_once_and_alike(v100: Joint, model: SpeedModel) -> None:
    candidates = v100.tenants()[np.zeros(100, dtype=int)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict(candidates, prior.UNRECORDED)
    assert found.speed.shape == (100, 2)
    assert np.ptp(found.speed, axis=0) == pytest.approx(0.0)


def test_a_neighbour_that_may_use_few_threads_takes_less_from_the_others() -> None:
    busy = job(smActivity=0.9, dramActivity=0.1, knee=20.0)
    capped = job(smActivity=0.9, dramActivity=0.1, knee=20.0, threads=0.2)
    assert prior.speeds(group(busy, busy), "MPS")[0] == pytest.approx([0.5 / 0.9, 0.5 / 0.9])
    assert prior.speeds(group(busy, capped), "MPS")[0] == pytest.approx([0.82 / 0.9, 0.2], abs=0.01)


def test_the_best_gpu_is_the_one_whose_tenants_leave_most() -> None:
    busy, idle = job(utilization=0.9), job(utilization=0.1)
    gpus = np.concatenate([group(busy, absent=1), group(idle, absent=1), group(idle, busy)])
    found = partners.gains(SpeedModel(), job(utilization=0.6), gpus, "TimeSlicing")
    assert found == pytest.approx([1.0 / 0.6 * 0.5 + 0.5 / 0.9 - 1.0, 1.0, 0.45 / 0.6 + 0.5 - 1.0])
    assert partners.best(SpeedModel(), job(utilization=0.6), gpus, "TimeSlicing") == 1


def test_a_gpu_without_enough_memory_is_never_the_best() -> None:
    gpus = np.concatenate([group(job(utilization=0.0, memory=0.95)), group(job(utilization=1.0))])
    assert partners.best(SpeedModel(), job(), gpus, "MPS") == 1
    assert partners.best(SpeedModel(), job(), gpus[:1], "MPS") is None
    assert partners.best(SpeedModel(), job(), gpus[:0], "MPS") is None


@pytest.mark.parametrize(
    "correction",
    [
        learned.Line(weights=np.array([0.5, -0.25])),
        learned.Process(
            n_own=1,
            n_others=1,
            own=np.array([[0.0], [1.0]]),
            others=np.array([[0.5]]),
            pairs=np.array([[0, 0], [1, 0]]),
            weights=np.array([0.1, -0.2]),
            parts=np.array([1.0, 1.0, 3.0]),
            lengths=np.array([1.0, 2.0]),
        ),
    ],
)
def test_a_correction_read_back_says_the_same(correction: learned.Correction) -> None:
    asked = np.array([[0.0, 0.5], [3.0, -1.0]])
    again = learned.from_state(json.loads(json.dumps(learned.state_of(correction))))
    assert again.predict(asked) == pytest.approx(correction.predict(asked))


def test_a_process_remembers_what_it_was_told() -> None:
    rows_seen = np.random.default_rng(0).normal(size=(30, 4))
    missed = np.sin(rows_seen[:, 0]) + rows_seen[:, 2] / 4
    found = corrections.process(rows_seen, missed, n_own=2, n_others=2).predict(rows_seen)
    assert found == pytest.approx(missed, abs=0.05)


def test_a_process_far_from_everything_says_what_is_common_to_all() -> None:
    rows_seen = np.random.default_rng(0).normal(size=(30, 4))
    process = corrections.process(rows_seen, np.full(30, 0.3), n_own=2, n_others=2)
    assert process.predict(np.full((1, 4), 1e6))[0] == pytest.approx(0.3, abs=0.2)


@pytest.mark.parametrize(
    "change",
    [{"pairs": [[5, 0]]}, {"parts": [1.0]}, {"lengths": [0.0, 1.0]}, {"weights": [float("nan")]}, {"own": [1.0]}],
)
def test_a_process_that_makes_no_sense_is_refused(change: Any) -> None:
    state = {
        "kind": "process", "nOwn": 1, "nOthers": 1, "own": [[0.0]], "others": [[0.0]], "pairs": [[0, 0]],
        "weights": [0.1], "parts": [1.0, 1.0, 1.0], "lengths": [1.0, 1.0],
    }  # fmt: skip
    assert learned.from_state(state).predict(np.zeros((1, 2))) == pytest.approx(0.4)
    with pytest.raises(ValueError, match=r"measured job|three parts|not finite|shape"):
        learned.from_state({**state, **change})
