"""`cotenant simulate philly`: its arrivals, its truths, its runs, its page and its command."""

import functools
import json
from collections.abc import Mapping

import pytest

from cotenant_api import prediction
from cotenant_predictor.colocation import speeds
from cotenant_predictor.datasets import gavel
from cotenant_predictor.models import store
from cotenant_simulator.commands import philly as command
from cotenant_simulator.engine import interference
from cotenant_simulator.philly import experiment, population, report, settings, trace, truths
from cotenant_simulator.report import page, tails
from predictor_kit.commands import called
from simulator import jobs_kit

CLUSTER = "103959"
FORMULA = interference.Interference(speeds.SpeedModel(), interference.MPS)


@functools.cache
def known() -> Mapping[str, prediction.Prediction]:
    return population.predictions(store.load(None).knowledge())


def ran(way: str, *, truth: truths.Truth = truths.Truth.MEASURED, load: float = 1.2) -> experiment.Figures:
    return experiment.run(experiment.Key(cluster=CLUSTER, jobs=60, load=load, truth=truth, way=way), known())


def tenant(kind: str, percent: float = 100.0, *, threads: int = 100) -> interference.Tenant:
    return interference.Tenant(
        real=jobs_kit.needs(percent), gpu_memory_mib=jobs_kit.GPU_MIB, threads=threads, priority=0, kind=kind
    )


@pytest.mark.parametrize("name", trace.NAMES)
def test_every_job_of_a_trace_was_measured_alone(name: str) -> None:
    given = trace.load(name)
    assert given[0].arrives == 0
    assert [one.arrives for one in given] == sorted(one.arrives for one in given)
    assert all(population.seconds(one) > 0 for one in given)
    assert {one.job_type for one in given} <= gavel.graphs().keys()


def test_a_job_on_more_gpus_than_were_measured_has_the_speed_of_the_next_smaller_number() -> None:
    alone = gavel.steps_per_second(population.GPU_MODEL)
    one = trace.Submission(job_type="CycleGAN", steps=1000, arrives=0.0, gpus=32)
    most = max(gpus for name, gpus in alone if name == "CycleGAN")
    assert population.seconds(one) == pytest.approx(1000 / alone["CycleGAN", most])


@pytest.mark.parametrize("load", [0.5, 2.0])
def test_arrivals_fill_the_gpus_to_the_load_and_keep_their_bursts(load: float) -> None:
    given = population.submitted("0e4a51", 200)
    made = population.drawn(given, known(), load=load, seed=1)
    gpus = population.GPUS_PER_NODE * len(population.nodes(given))
    assert population.work_seconds(given) / (gpus * made[-1].arrives) == pytest.approx(load)
    slower = made[-1].arrives / given[-1].arrives
    assert [job.arrives for job in made] == pytest.approx([slower * one.arrives for one in given])
    assert [job.gpus * job.replicas for job in made] == [one.gpus for one in given]


def test_a_cluster_has_room_for_its_largest_job() -> None:
    given = population.submitted("2869ce", 600)
    assert population.GPUS_PER_NODE * len(population.nodes(given)) >= max(one.gpus for one in given)


@pytest.mark.parametrize("again", [False, True])
def test_a_measured_pair_is_as_fast_as_it_was_measured_in_either_order(*, again: bool) -> None:
    found = truths.pairs(gavel.load_again() if again else gavel.load())
    assert len(found) >= 300
    held = truths.Measured(found, FORMULA)
    for (first, second), (one, other) in list(found.items())[:40]:
        assert held.together([tenant(first), tenant(second)]).speeds == pytest.approx((min(one, 1), min(other, 1)))
        assert held.together([tenant(second), tenant(first)]).speeds == pytest.approx((min(other, 1), min(one, 1)))


def test_a_measured_job_is_never_faster_than_alone_on_its_threads() -> None:
    held = truths.Measured({("a", "b"): (0.9, 0.6)}, FORMULA)
    limited = tenant("a", threads=50)
    (alone,) = held.together([limited]).speeds
    assert alone < 0.9
    assert held.together([limited, tenant("b")]).speeds == (alone, 0.6)


def test_what_was_not_measured_has_the_speeds_of_the_formula() -> None:
    held = truths.Measured({("a", "b"): (0.9, 0.6)}, FORMULA)
    for others in ([tenant("a", 60), tenant("c", 70)], [tenant("a", 60), tenant("b", 70), tenant("c", 10)], []):
        assert held.together(others) == FORMULA.together(others)


def test_each_neighbour_takes_a_tax() -> None:
    held = truths.Taxed(FORMULA)
    assert held.together([tenant("a", 30)]) == FORMULA.together([tenant("a", 30)])
    three = [tenant("a", 30), tenant("b", 30), tenant("c", 30)]
    assert held.together(three).speeds == pytest.approx([(1 - truths.TAX) ** 2] * 3)


def test_sharing_in_turns_slows_what_the_formula_lets_run_side_by_side() -> None:
    busy = jobs_kit.needs(90.0).model_copy(update={"sm_activity": prediction.PercentRange(q50=20, upper=20)})
    pair = [tenant(name)._replace(real=busy) for name in "ab"]
    held = [truths.speeds_of(truth) for truth in (truths.Truth.SLICED, truths.Truth.FORMULA)]
    slow, fast = (one.together(pair).speeds for one in held)
    assert sum(slow) == pytest.approx(1 / 0.9)
    assert fast == pytest.approx((1, 1))


def test_one_job_a_gpu_slows_nobody_and_the_same_key_gives_the_same_figures() -> None:
    found = ran(settings.BASE)
    assert (found.unfinished, found.out_of_memory, len(found.completions)) == (0, 0, 60)
    assert max(found.slowdowns) == pytest.approx(0, abs=1e-9)
    assert ran(settings.BASE) == found


def test_two_by_memory_share_and_are_slowed_as_measured() -> None:
    found = ran("two by memory")
    assert found.unfinished == 0
    assert tails.percentile(found.slowdowns) > 0.3


def test_a_lighter_load_has_jobs_done_sooner() -> None:
    assert ran(settings.BASE, load=0.3).mean_seconds < ran(settings.BASE, load=2.0).mean_seconds


def test_one_job_a_gpu_runs_once_for_all_truths() -> None:
    keys = experiment.keys(["a", "b"], jobs=5, loads=[0.5, 1.0])
    assert len(keys) == len(set(keys)) == 2 * 2 * (1 + 5 * len(truths.Truth))
    assert {experiment.base(key) for key in keys} == {key for key in keys if key.way == settings.BASE}


def results(share: float) -> report.Results:
    """Two clusters, in which every way but the base takes so much of the base's time."""
    return {
        key: experiment.Figures(
            completions=[base * (1.0 if key.way == settings.BASE else share)],
            slowdowns=[0.0 if key.way == settings.BASE else 0.25],
            occupied_percent=50.0,
            unfinished=0,
            out_of_memory=0,
        )
        for key in experiment.keys([CLUSTER, "0e4a51"], jobs=20, loads=[0.5])
        for base in [100.0 if key.cluster == CLUSTER else 1000.0]
    }


def test_changes_are_against_one_job_a_gpu_of_the_same_cluster() -> None:
    shown = report.page_of(results(0.9), model="m", command="c")
    changed, slowed, clusters = shown.tables
    assert [row[0] for row in changed.rows] == [setting.name for setting in settings.ALL[1:]]
    found = changed.rows[0][1]
    assert isinstance(found, page.Estimate)
    assert (found.mean, found.low, found.high) == pytest.approx((-10, -10, -10))
    assert slowed.rows[0][1:] == [25.0] * len(truths.Truth)
    assert [row[0] for row in clusters.rows] == ["0e4a51", CLUSTER]
    assert clusters.rows[1][1] == 20.0


@pytest.mark.parametrize(("share", "said"), [(0.9, "5 of 5 cases, later in 0"), (1.2, "0 of 5 cases, later in 5")])
def test_the_answer_counts_the_cases_in_which_a_way_is_better_and_worse(share: float, said: str) -> None:
    answer = report.page_of(results(share), model="m", command="c").answer
    assert f"Cotenant: sooner done than with one job a GPU in {said}" in answer


def test_the_command_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--cluster", CLUSTER, "--jobs", "12", "--loads", "1", "--processes", "1", "--json")
    assert called(command, *asked) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["runs"]) == 1 + 5 * len(truths.Truth)
    assert document["model"] == store.load(None).reference


@pytest.mark.parametrize(
    ("option", "value"), [("--loads", "0"), ("--loads", "a"), ("--loads", "9"), ("--jobs", "1"), ("--cluster", "x")]
)
def test_options_that_make_no_sense_are_refused(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(command, option, value) == 1
    assert f"{option}: {value}" in capsys.readouterr().err.replace(".0", "").replace("'", "")
