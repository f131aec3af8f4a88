"""What is asked of MPS, what is planned of it, and what is reported: without a process."""

from typing import Any

import pytest

from cotenant_predictor.profiling import plan, sets
from cotenant_predictor.profiling.behaviour import findings, laboratory, libcuda, questions, report
from cotenant_predictor.profiling.behaviour.driver import DriverError
from cotenant_predictor.profiling.executor import Settings
from cotenant_predictor.profiling.mps import MpsUnavailableError
from gpu import report as gpu_report
from profiling import behaviour_labs

BUDGET_SECONDS = 450
RESULTS = behaviour_labs.GPU / "results" / "NVIDIA-H200"
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


def test_a_gpu_is_asked_what_says_most_first_and_measures_percentages_last() -> None:
    runs = plan.runs(sets.behaviour(), plan.STAGES)
    found = [run.experiment or run.stage for run in runs]
    assert list(dict.fromkeys(found)) == [
        *("nvml", "agent-nvml", "agent-mps", "agent-tenant"),
        *("shared-memory", "users", "no-daemon"),
        *("threads", "memory-limit", "context", "two-processes", "environment", "priority"),
        *("fault", "kill", "kill-terminated"),
        *("alone", "percentages"),
    ]
    assert found[13:16] == ["fault", "kill", "kill-terminated"]
    assert {run.repeat for run in runs[:16]} == {0}


@pytest.mark.parametrize("jobs", [sets.kace21(), sets.ten(), sets.smoke()], ids=lambda jobs: jobs.name)
def test_pairs_come_before_percentages_which_are_last(jobs: sets.JobSet) -> None:
    stages = list(dict.fromkeys(run.stage for run in plan.runs(jobs, plan.STAGES)))
    assert stages.index("pairs") < stages.index("percentages") == len(stages) - 1


def test_each_tenant_is_killed_twice_before_anything_else_is_repeated() -> None:
    first, more = (plan.runs(sets.behaviour(), [part]) for part in ("kills", "more-kills"))
    assert [run.experiment for run in first] == ["kill", "kill-terminated"]
    assert Settings().kills == 2
    assert [run.experiment for run in more] == ["kill"] * 4 + ["kill-terminated"] * 4


def test_every_stage_can_be_called_by_itself_and_together_they_are_the_plan() -> None:
    alone = [run for stage in plan.STAGES for run in plan.runs(sets.behaviour(), [stage])]
    assert alone == list(plan.runs(sets.behaviour(), plan.STAGES))
    assert len({run.id for run in alone}) == len(alone)
    endings = plan.runs(sets.behaviour(), ["endings"])
    assert endings == plan.runs(sets.behaviour(), ["more-kills", "kills", "fault"])


@pytest.mark.parametrize("stage", ["management", "surroundings", "limits", "fault", "kills"])
def test_a_stage_of_experiments_ends_within_its_budget_of_time(stage: str) -> None:
    runs = plan.runs(sets.behaviour(), [stage])
    assert sum(questions.named(run.experiment).seconds for run in runs) <= BUDGET_SECONDS


def test_a_call_has_a_budget_below_eight_minutes_also_where_it_is_ended() -> None:
    script = (behaviour_labs.GPU / "run.sh").read_text()
    budget = int(script.partition("--budget-seconds ")[2].split()[0])
    grace, limit = script.partition("timeout --kill-after=")[2].split()[:2]
    assert budget == BUDGET_SECONDS
    assert budget < int(limit) < int(limit) + int(grace) < 8 * 60


def test_results_that_were_recorded_are_results_of_the_plan() -> None:
    planned = {run.id for run in plan.runs(sets.behaviour(), plan.STAGES)}
    recorded = gpu_report.results_of([RESULTS / "behaviour", RESULTS / "behaviour-again"])
    ids = {each["id"] for each in recorded}
    assert len(ids) >= 19
    assert ids <= planned


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
