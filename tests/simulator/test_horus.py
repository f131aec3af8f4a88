"""The case study: its jobs, its ways, and its table."""

import dataclasses
import math
from collections.abc import Mapping

import pytest

from cotenant_api import prediction
from cotenant_predictor.colocation import speeds
from cotenant_predictor.jobs import prediction as predicting
from cotenant_simulator.horus import experiment, population, published, report
from simulator import jobs_kit

SETTINGS = {setting.name: setting for setting in experiment.SETTINGS}


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
    runs = {
        seed: experiment.figures(experiment.run(SETTINGS[name], mix(), speeds.SpeedModel(), seed=seed, sigma=sigma))
        for seed in seeds
    }
    return experiment.Result(setting=SETTINGS[name], runs=runs)


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


def test_slots_slow_nobody_down() -> None:
    (run,) = result("Slot").runs.values()
    assert run.slowdown_worst == pytest.approx(0, abs=1e-9)
    assert (run.out_of_memory, run.failed) == (0, 0)


def test_exact_predictions_pack_without_any_slowdown_and_in_less_time() -> None:
    (slot,), (packed,) = (result(name).runs.values() for name in ("Slot", "Horus"))
    assert packed.slowdown_worst == pytest.approx(0, abs=1e-9)
    assert packed.makespan_seconds < slot.makespan_seconds
    assert packed.utilization_percent > slot.utilization_percent


def test_measuring_first_is_better_than_slots_and_worse_than_knowing() -> None:
    times = [next(iter(result(name).runs.values())).makespan_seconds for name in ("Slot", "Reactive", "Horus")]
    assert times == sorted(times, reverse=True)


def test_predictions_that_are_wrong_cost_speed() -> None:
    (run,) = result("Horus", sigma=0.5).runs.values()
    assert run.slowdown_worst > 0


def test_same_seed_gives_the_same_figures() -> None:
    assert result("Cotenant", seeds=(3,), sigma=0.154) == result("Cotenant", seeds=(3,), sigma=0.154)


def test_table_compares_seed_by_seed_and_has_the_published_figures_apart() -> None:
    figures = experiment.Figures(
        utilization_percent=40.0,
        makespan_seconds=1000.0,
        run_seconds=100.0,
        completion_seconds=500.0,
        slowdown_median=0.0,
        slowdown_worst=0.5,
        out_of_memory=1,
        failed=0,
    )
    twice = dataclasses.replace(figures, makespan_seconds=2000.0)
    slot = experiment.Result(setting=SETTINGS["Slot"], runs={1: figures, 2: twice})
    horus = experiment.Result(setting=SETTINGS["Horus"], runs={1: twice, 2: twice})
    lines = list(report.table([slot, horus]))
    assert "+50.0 (+0.0..+100.0)" in lines[3]
    assert lines[0].startswith("| simulated |")
    assert [line.split(" | ")[0] for line in lines[5:]] == ["| published", "| ---", "| Slot", "| Reactive", "| Horus"]
    assert "| Horus | 69.6 | -33.5 | 2024 | +8.3 |" in lines


def test_table_without_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to compare with"):
        list(report.table([result("Horus")]))


def test_document_names_every_run_as_simulated() -> None:
    found = report.document([result("Slot", seeds=(1, 2))], definitions="torchvision", sigma=0.0)
    assert found["simulated"] is True
    assert [run["seed"] for run in found["settings"][0]["seeds"]] == [1, 2]
