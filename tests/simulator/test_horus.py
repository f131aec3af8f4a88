"""The case study: its jobs, its ways, and its table."""

import dataclasses
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant_api import packingpolicy, prediction
from cotenant_predictor.colocation import speeds
from cotenant_predictor.jobs import prediction as predicting
from cotenant_simulator.horus import experiment, goals, population, published, report, settings
from cotenant_simulator.report import page
from simulator import jobs_kit


def mix() -> Mapping[str, prediction.Prediction]:
    """Three models, as predicted for the study's GPUs."""
    found = {"small": 25.0, "middle": 45.0, "large": 70.0}
    return {
        name: jobs_kit.believed(jobs_kit.needs(percent, upper=1.2 * percent), name=name).model_copy(
            update={"by_gpu": {published.GPU_MODEL: jobs_kit.needs(percent, upper=1.2 * percent)}}
        )
        for name, percent in found.items()
    }


def result(name: str, *, seeds: tuple[int, ...] = (1,), sigma: float = 0.0) -> experiment.Result:
    setting, assumed = settings.named(name), population.Assumed(sigma=sigma)
    runs = {seed: experiment.run(setting, mix(), speeds.SpeedModel(), seed=seed, assumed=assumed) for seed in seeds}
    return experiment.Result(setting=setting, runs=runs)


def figures_of(name: str, *, sigma: float = 0.0) -> experiment.Figures:
    (run,) = result(name, sigma=sigma).runs.values()
    return run.figures


def asked() -> report.Asked:
    return report.Asked(
        definitions="torchvision", assumed=population.Assumed(), model="model-1", command="cotenant simulate horus"
    )


def with_figures(run: experiment.Run, **changed: Any) -> experiment.Run:
    return dataclasses.replace(run, figures=dataclasses.replace(run.figures, **changed))


def test_jobs_are_as_many_and_as_long_as_published() -> None:
    drawn = population.drawn(mix(), seed=1, sigma=0.0)
    times = [job.seconds[published.GPU_MODEL] for job in drawn]
    assert len(drawn) == published.JOBS
    assert published.SHORTEST_SECONDS <= min(times) <= max(times) <= published.LONGEST_SECONDS
    assert {job.kind.name for job in drawn} == set(mix())


def test_error_of_prediction_changes_what_jobs_need_and_not_which_are_drawn() -> None:
    exact, wrong = (population.drawn(mix(), seed=1, sigma=sigma) for sigma in (0.0, 0.3))
    assert [(job.name, job.kind.name, job.seconds) for job in exact] == [
        (job.name, job.kind.name, job.seconds) for job in wrong
    ]
    for job, other in zip(exact, wrong, strict=True):
        believed = mix()[job.kind.name].by_gpu[published.GPU_MODEL].utilization.q50
        assert job.kind.real[published.GPU_MODEL].utilization.q50 == believed
        assert other.kind.real[published.GPU_MODEL].utilization.q50 != believed


def test_errors_spread_as_asked() -> None:
    found = [
        math.log(job.kind.real[published.GPU_MODEL].utilization.q50 / 25)
        for seed in range(300)
        for job in population.drawn({"small": mix()["small"]}, seed=seed, sigma=0.2, count=1)
    ]
    mean = sum(found) / len(found)
    assert mean == pytest.approx(0, abs=0.05)
    assert math.sqrt(sum((one - mean) ** 2 for one in found) / len(found)) == pytest.approx(0.2, rel=0.15)


@pytest.mark.parametrize("definitions", published.Definitions)
def test_both_readings_of_the_mix_have_the_same_models(definitions: published.Definitions) -> None:
    assert set(population.graphs(definitions)) == set(population.graphs(published.Definitions.TORCHVISION))


def test_jobs_that_do_not_fit_the_gpus_are_not_in_the_mix() -> None:
    found = population.predictions(published.Definitions.PYTORCH_CIFAR, predicting.FORMULA)
    assert 0 < len(found) < len(population.graphs(published.Definitions.PYTORCH_CIFAR))
    assert max(one.by_gpu[published.GPU_MODEL].memory_mib.upper for one in found.values()) <= 0.95 * 8192


def test_long_jobs_are_known_by_what_users_expect() -> None:
    given = population.drawn(mix(), seed=1, sigma=0.0)
    classes = settings.LONG_FIRST
    exact = population.in_classes(given, classes, seed=1, sigma=0.0)
    wrong = population.in_classes(given, classes, seed=1, sigma=1.0)
    assert [job.priority for job in exact] == [classes.priority(job.seconds[published.GPU_MODEL]) for job in given]
    assert [job.priority for job in exact] != [job.priority for job in wrong]
    assert {job.priority for job in exact} == {0, 1, 2}


def test_jobs_arrive_in_order_over_the_time_asked_for() -> None:
    given = population.drawn(mix(), seed=1, sigma=0.0)
    times = [job.arrives for job in population.arriving(given, seed=1, seconds=3600.0)]
    assert times[0] == 0.0
    assert times == sorted(times)
    assert 3000 < times[-1] < 3600


def test_slots_slow_nobody_down() -> None:
    run = figures_of("Slot")
    assert run.slowdown_worst == pytest.approx(0, abs=1e-9)
    assert (run.out_of_memory, run.failed) == (0, 0)


def test_exact_predictions_pack_without_any_slowdown_and_in_less_time() -> None:
    slot, packed = figures_of("Slot"), figures_of("Horus")
    assert packed.slowdown_worst == pytest.approx(0, abs=1e-9)
    assert packed.makespan_seconds < slot.makespan_seconds
    assert packed.utilization_percent > slot.utilization_percent


def test_measuring_first_is_better_than_slots_and_worse_than_knowing() -> None:
    times = [figures_of(name).makespan_seconds for name in ("Slot", "Reactive", "Horus")]
    assert times == sorted(times, reverse=True)


def test_long_jobs_first_shortens_the_tail() -> None:
    assert figures_of("Horus, long first").makespan_seconds < figures_of("Horus").makespan_seconds


def test_predictions_that_are_wrong_cost_speed() -> None:
    assert figures_of("Horus", sigma=0.5).slowdown_worst > 0


def test_same_seed_gives_the_same_figures() -> None:
    assert figures_of("Cotenant", sigma=0.154) == figures_of("Cotenant", sigma=0.154)


@pytest.mark.parametrize("name", ["Slot", "Horus", "Cotenant, dense", "Cotenant, dense, long first"])
def test_no_way_is_faster_than_its_bound(name: str) -> None:
    (run,) = result(name).runs.values()
    bounds = run.bounds
    least = {"Slot": bounds.slot_seconds, "Horus": bounds.turns_seconds}.get(name, bounds.mps_seconds)
    assert run.figures.makespan_seconds >= least >= bounds.longest_seconds


def test_policies_of_all_ways_are_accepted() -> None:
    for setting in settings.ALL:
        packingpolicy.Spec.model_validate(setting.packing)


def test_policy_is_told_as_an_admin_writes_it() -> None:
    fields = settings.named(settings.DENSE).packing
    assert yaml.safe_load("{" + report.yaml(fields) + "}") == {**fields, "queue": dict(fields["queue"])}


def test_page_compares_seed_by_seed_and_has_the_published_figures_apart() -> None:
    slot, horus = result("Slot", seeds=(1, 2)), result("Horus", seeds=(1, 2))
    once, twice = (with_figures(slot.runs[1], makespan_seconds=seconds) for seconds in (1000.0, 2000.0))
    slot = dataclasses.replace(slot, runs={1: once, 2: twice})
    horus = dataclasses.replace(horus, runs={1: twice, 2: twice})
    shown = report.page_of([slot, horus], asked())
    cluster = shown.tables[0]
    change = cluster.rows[1][[column.title for column in cluster.columns].index("change %")]
    assert isinstance(change, page.Estimate)
    assert change.mean == pytest.approx(50.0)
    (told,) = [table for table in shown.tables if table.basis is page.Basis.PUBLISHED]
    assert [row[0] for row in told.rows] == ["Slot", "Reactive", "Horus"]
    assert told.rows[2][4] == pytest.approx(8.3, abs=0.05)


def test_page_without_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to compare with"):
        report.page_of([result("Horus")], asked())


def test_page_has_a_lane_for_each_gpu() -> None:
    shown = report.page_of([result("Slot")], asked())
    (lanes,) = [part.lanes for part in shown.parts if isinstance(part, page.Timeline)]
    assert len(lanes) == published.GPUS
    assert sum(map(len, lanes.values())) == published.JOBS


def test_goals_are_met_only_by_what_is_no_worse_than_published() -> None:
    slot = result("Slot")
    better = with_figures(
        slot.runs[1],
        utilization_percent=70.0,
        makespan_seconds=0.6 * slot.runs[1].figures.makespan_seconds,
        completion_seconds=0.9 * slot.runs[1].figures.completion_seconds,
    )
    slower = with_figures(better, run_seconds=1.05 * better.figures.run_seconds)
    met = [
        goals.of(experiment.Result(setting=slot.setting, runs={1: run}), slot).met
        for run in (better, slower, slot.runs[1])
    ]
    assert met == [(True, True, True, True), (True, True, False, True), (False, False, True, False)]


def test_the_answer_says_how_far_the_simulated_rival_is_from_what_was_measured() -> None:
    slot = result("Slot")
    run = with_figures(slot.runs[1], run_seconds=1.009 * slot.runs[1].figures.run_seconds)
    rival = experiment.Result(setting=settings.named(settings.HORUS), runs={1: run})
    ours = experiment.Result(setting=settings.named(settings.DENSE_LONG), runs={1: run})
    shown = goals.answer([goals.of(one, slot) for one in (slot, rival, ours)])
    assert "The simulated Horus has makespan +0.0 % (published -33.5)" in shown
    assert "run time +0.9 % where the study measured +8.3 %" in shown


def test_document_names_every_run_as_simulated_and_has_intervals() -> None:
    found = report.document([result("Slot", seeds=(1, 2))], asked())
    assert found["simulated"] is True
    assert [run["seed"] for run in found["settings"][0]["seeds"]] == [1, 2]
    assert found["settings"][0]["intervals"]["makespanChange"] == {"mean": 0.0, "low": 0.0, "high": 0.0}


def test_docs_show_the_dense_policy_that_was_run() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
    (block,) = [one for one in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "threadPartition: None" in one]
    policy, priority = yaml.safe_load_all(block)
    assert policy["spec"] == settings.named(settings.DENSE).packing
    assert priority["value"] == settings.LONG_FIRST.priority(3600.0)
