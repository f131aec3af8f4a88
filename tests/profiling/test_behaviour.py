"""What is asked of MPS, what is planned of it, and what is reported: without a process."""

from typing import Any

import pytest

from cotenant_predictor.profiling import plan, sets
from cotenant_predictor.profiling.behaviour import findings, laboratory, libcuda, questions, report
from cotenant_predictor.profiling.behaviour.driver import DriverError
from cotenant_predictor.profiling.executor import Settings
from cotenant_predictor.profiling.mps import MpsUnavailableError

REAL, STAND_IN, SIMULATED = "580.65.06", "580.65.06 (stand-in)", "simulated"


def result(name: str, answers: dict[str, Any], *, driver: str = REAL, **more: Any) -> dict[str, Any]:
    experiment = questions.named(name)
    run = next(run for run in plan.runs(sets.behaviour(), [experiment.stage]) if run.experiment == name)
    seen = {"answers": answers, "reasons": {}, "records": []}
    return {
        "id": run.id,
        "run": run.to_object(),
        "simulated": driver != REAL,
        "gpuModel": "NVIDIA-H200",
        "environment": {"driver": driver, "cuda": "13.0", "torch": "2.9", "cpu": "x"},
        "time": "2026-01-02T00:00:00+00:00",
        "outcome": "Ok",
        "tenants": [],
        "experiment": {"name": name, **seen},
        **more,
    }


def break_off(error: Exception) -> None:
    raise error


def test_every_experiment_can_be_conducted() -> None:
    assert set(laboratory.CONDUCTS) == {experiment.name for experiment in questions.EXPERIMENTS}


def test_what_is_documented_has_a_source() -> None:
    every = [question for experiment in questions.EXPERIMENTS for question in experiment.questions]
    stated = [
        one for one in every if one.documented not in {questions.NOT_SAID, ""} and "NVIDIA's" not in one.documented
    ]
    assert all(question.source for question in stated)


def test_the_set_measures_at_least_six_kinds_of_models_at_every_percentage() -> None:
    runs = plan.runs(sets.behaviour(), ["percentages"])
    groups = {job.name: job.group for job in sets.behaviour().jobs}
    assert len({groups[run.tenants[0].job] for run in runs}) >= 6
    for name in groups:
        found = [run.tenants[0].thread_percentage for run in runs if run.tenants[0].job == name]
        assert found == list(range(10, 101, 10))


def test_tenants_are_killed_fifty_times_with_and_without_the_daemon() -> None:
    runs = plan.runs(sets.behaviour(), ["endings"])
    for name in ("kill", "kill-terminated"):
        assert len([run for run in runs if run.experiment == name]) * Settings().kills == 50
    assert len({run.id for run in runs}) == len(runs)


def test_experiments_are_planned_for_no_other_set_and_survive_being_written() -> None:
    assert plan.runs(sets.smoke(), questions.STAGES) == ()
    for run in plan.runs(sets.behaviour(), plan.STAGES):
        assert plan.Run.from_object(run.to_object()) == run


def test_runs_of_jobs_keep_the_names_that_they_always_had() -> None:
    run = plan.runs(sets.smoke(), ["alone"])[0]
    assert run.id == "alone-de29cc9909e936aa"
    assert "experiment" not in run.to_object()


def test_a_part_that_breaks_off_leaves_a_reason_and_the_answers_before_it() -> None:
    found = findings.Findings()
    with found.asking("first", "second"):
        found.values["first"] = 1
        break_off(findings.UnansweredError("not permitted here"))
    with found.asking("third"):
        break_off(ZeroDivisionError())
    assert found.to_object(["first", "second", "third", "fourth"]) == {
        "answers": {"first": 1},
        "reasons": {
            "second": "not permitted here",
            "third": "the experiment broke off: ZeroDivisionError: ",
            "fourth": "not reached",
        },
        "records": [],
    }


def test_a_daemon_that_does_not_start_is_remembered() -> None:
    found = findings.Findings()
    with found.asking("first"):
        break_off(MpsUnavailableError("no program"))
    assert found.without_mps == "no program"


def test_a_missing_library_is_an_error_of_the_driver() -> None:
    with pytest.raises(DriverError, match="dlopen: NO_LIBRARY: no-such-library"):
        libcuda.Cuda("no-such-library.so")


def test_real_results_have_a_column_of_their_own_with_model_and_driver() -> None:
    made = report.columns([result("fault", {"state": "FAULT"}), result("fault", {}, driver=STAND_IN)])
    assert [column.name for column in made] == ["simulated device", "stand-in", "NVIDIA-H200, 580.65.06"]
    assert [column.real for column in made] == [False, False, True]
    assert "not measured yet" not in "".join(report.conditions(made)[1:])


def test_a_result_that_contradicts_itself_about_being_real_is_refused() -> None:
    with pytest.raises(ValueError, match=r"simulated is False, and the driver is 580\.65\.06"):
        report.columns([result("fault", {}, driver=STAND_IN, simulated=False)])


def test_an_answer_that_is_not_documented_so_stands_out() -> None:
    made = report.columns([result("fault", {"state": "ACTIVE", "neighboursAllFail": True})])
    text = "\n".join(report.differences(made))
    assert "| not measured yet | not measured yet | **ACTIVE** |" in text
    assert report.summary(made) == [
        "- **NVIDIA-H200, 580.65.06**, `fault`, state of the server while they live: documented FAULT, seen ACTIVE"
    ]


def test_a_time_is_shown_of_real_hardware_alone() -> None:
    answers = {"longestStepMilliseconds": 12.5}
    made = report.columns([result("kill", answers), result("kill", answers, driver=STAND_IN)])
    row = next(line for line in report.differences(made) if line.startswith("| its longest step"))
    assert row.endswith("| not measured yet | *a time of its host* | 12.5 |")


def test_runs_of_one_experiment_are_added_up() -> None:
    first = {"kills": 10, "neighbourErrors": 2, "states": ["ACTIVE"], "secondsUntilNewClient": 0.5}
    second = {"kills": 10, "neighbourErrors": 0, "states": ["FAULT"], "secondsUntilNewClient": 1.5}
    column = report.Column("x", (result("kill", first), result("kill", second)))
    by = {one.key: report.merged(questions.named("kill"), one, column) for one in questions.named("kill").questions}
    assert (by["kills"], by["neighbourErrors"], by["states"]) == (20, 2, ["ACTIVE", "FAULT"])
    assert by["secondsUntilNewClient"] == 1.5
    assert by["clientListed"] is None


def test_answers_that_differ_from_run_to_run_stand_side_by_side() -> None:
    column = report.Column("x", (result("fault", {"state": "FAULT"}), result("fault", {"state": "ACTIVE"})))
    question = next(one for one in questions.named("fault").questions if one.key == "state")
    assert report.merged(questions.named("fault"), question, column) == ["FAULT", "ACTIVE"]


def test_models_are_compared_with_themselves_at_all_threads() -> None:
    rows = []
    for percentage, rate in ((50, 60.0), (100, 80.0)):
        planned = {"job": "bert", "thread_percentage": percentage}
        run = {"stage": "percentages", "tenants": [planned]}
        rows.append(result("fault", {}, run=run, tenants=[{"stepsPerSecond": rate}]))
    assert report.models(report.columns(rows))[-3:] == [
        "| model | 50 % | 100 % |",
        "|---|---|---|",
        "| bert | 0.75 | 1.00 |",
    ]
