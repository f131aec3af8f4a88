"""`cotenant simulate prediction-error`: its runs, its page and its command."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

import pytest

from cotenant_api import prediction
from cotenant_predictor.colocation import speeds
from cotenant_simulator.commands import prediction_error
from cotenant_simulator.horus import experiment as horus
from cotenant_simulator.horus import published
from cotenant_simulator.prediction_error import beliefs, experiment, gains, report
from cotenant_simulator.report import page
from predictor_kit.commands import called
from simulator import jobs_kit

SIGMAS = (0.0, 0.5, 1.0)
UNDERESTIMATES = 4
"""A seed that draws a model of `mix` as far less busy than it is."""


def mix() -> Mapping[str, prediction.Prediction]:
    """Three models, as predicted for the study's GPUs, of which three fit one by memory."""
    found = {
        name: jobs_kit.needs(percent, upper=1.2 * percent, memory_mib=2000)
        for name, percent in {"small": 25.0, "middle": 45.0, "large": 70.0}.items()
    }
    return {
        name: jobs_kit.believed(one, name=name).model_copy(update={"by_gpu": {published.GPU_MODEL: one}})
        for name, one in found.items()
    }


def ran(way: str, of: beliefs.Of | None = None, *, sigma: float = 0.0, seed: int = 1) -> horus.Figures:
    key = experiment.Key(way=way, of=of, sigma=sigma, seed=seed)
    return experiment.run(key, mix(), speeds.SpeedModel())


def test_ways_that_believe_nothing_run_once_for_each_seed() -> None:
    found = experiment.keys([beliefs.Of.MEMORY, beliefs.Of.BOTH], SIGMAS, [1, 2])
    assert len(found) == len(set(found)) == len(experiment.OTHERS) * 2 + len(experiment.BELIEVING) * 2 * 3 * 2
    assert {key.of for key in found if key.way in experiment.OTHERS} == {None}


def test_the_same_key_gives_the_same_figures() -> None:
    assert ran(experiment.PREDICTED, beliefs.Of.BOTH, sigma=0.5) == ran(
        experiment.PREDICTED, beliefs.Of.BOTH, sigma=0.5
    )


def test_memory_that_is_believed_wrongly_ends_attempts_and_no_job() -> None:
    right, wrong = (ran(experiment.MEDIAN, beliefs.Of.MEMORY, sigma=sigma) for sigma in (0.0, 0.8))
    assert right.out_of_memory == 0
    assert wrong.out_of_memory > 0
    assert wrong.failed == 0


def test_utilization_that_is_believed_too_low_slows_jobs_down() -> None:
    right, wrong = (
        ran(experiment.PREDICTED, beliefs.Of.UTILIZATION, sigma=sigma, seed=UNDERESTIMATES) for sigma in (0.0, 0.8)
    )
    assert right.slowdown_worst == pytest.approx(0, abs=1e-9)
    assert wrong.slowdown_worst > 0.1


def test_jobs_run_as_long_alone_whatever_is_believed() -> None:
    slot = ran(experiment.SLOT)
    assert slot.slowdown_worst == pytest.approx(0, abs=1e-9)
    assert ran(experiment.PREDICTED, beliefs.Of.UTILIZATION).run_seconds == pytest.approx(slot.run_seconds)


FIGURES = horus.Figures(
    utilization_percent=50.0,
    makespan_seconds=1000.0,
    run_seconds=100.0,
    completion_seconds=500.0,
    slowdown_median=0.0,
    slowdown_worst=0.5,
    out_of_memory=1,
    failed=0,
)


def results(makespans: Mapping[str, Sequence[float]], *, failed: int = 0) -> gains.Results:
    """Of one axis; each way's makespan at each sigma, 1000 s for ways that are not named."""
    asked = gains.Asked(axes=[beliefs.Of.MEMORY], sigmas=SIGMAS, seeds=[1, 2], mechanism="MPS", model="by-hand")
    runs = {
        key: dataclasses.replace(
            FIGURES, makespan_seconds=makespans.get(key.way, [1000.0] * 3)[SIGMAS.index(key.sigma)], failed=failed
        )
        for key in experiment.keys(asked.axes, asked.sigmas, asked.seeds)
    }
    return gains.Results(asked=asked, runs=runs)


def crossings(found: gains.Results) -> dict[str, dict[str, page.Cell]]:
    """By way and by column."""
    table = report.page_of(found, command="c").tables[0]
    titles = [column.title for column in table.columns]
    return {str(row[1]): dict(zip(titles, row, strict=True)) for row in table.rows}


def test_the_crossing_lies_on_the_line_between_two_errors() -> None:
    found = crossings(results({"Predicted": [900.0, 950.0, 1050.0]}))["Predicted"]
    assert found["makespan, Slot"] == "0.75 [sure to 0.75, lost from 0.75]"


def test_what_always_pays_and_what_never_does() -> None:
    found = crossings(results({"Predicted": [900.0, 950.0, 990.0], "Hybrid": [1000.0, 1100.0, 1200.0]}))
    assert found["Predicted"]["makespan, Reactive"] == "never within 0..1 [sure throughout]"
    assert found["Hybrid"]["makespan, Reactive"] == "never paid [sure nowhere, lost from 0.00]"


def test_run_time_may_be_a_little_longer_than_on_whole_gpus() -> None:
    assert crossings(results({}))["Median"]["run time, Slot + 4 %"] == "never within 0..1 [sure throughout]"


def test_the_answer_is_of_the_way_that_ships() -> None:
    answer = report.page_of(results({"Predicted": [900.0, 950.0, 1050.0]}), command="c").answer
    assert "makespan, Slot: up to 0.75, surely up to 0.75" in answer
    assert "run time, Slot + 4 %: at every error up to 1" in answer
    assert "from submission, Slot: at no error" in answer


def test_the_answer_claims_no_gain_that_its_interval_does_not_hold() -> None:
    found = results({})
    lucky = {key: run for key, run in found.runs.items() if (key.way, key.seed) == ("Predicted", 1)}
    runs = {**found.runs, **{key: dataclasses.replace(run, makespan_seconds=500.0) for key, run in lucky.items()}}
    answer = report.page_of(dataclasses.replace(found, runs=runs), command="c").answer
    assert "makespan, Slot: by no sure margin at any error" in answer


def test_every_figure_has_a_line_for_every_way_with_its_interval() -> None:
    shown = report.page_of(results({}), command="c")
    lines = [part for part in shown.parts if isinstance(part, page.Lines)]
    assert len(lines) == len(gains.MEASURES)
    for one in lines:
        assert [series.name for series in one.series] == list(experiment.WAYS)
        assert all(series.low is not None and len(series.x) == len(series.y) for series in one.series)
    assert all(part.basis is page.Basis.SIMULATED for part in shown.parts)


def test_jobs_that_were_given_up_are_told() -> None:
    assert not any("given up" in text for text in report.page_of(results({}), command="c").conditions)
    assert any("given up" in text for text in report.page_of(results({}, failed=1), command="c").conditions)


def test_the_command_says_the_same_twice(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        argv = ["--seeds", "3", "--sigmas", "0,0.5", "--of", "memory", "--processes", "1", "--json"]
        assert called(prediction_error, *argv) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    document = json.loads(told[0])
    assert document["simulated"] is True
    assert len(document["runs"]) == len(experiment.OTHERS) + 2 * len(experiment.BELIEVING)
    assert {row["wrong"] for row in document["crossings"]} == {"memory"}


@pytest.mark.parametrize("text", ["0", "0.5,0.2", "0,nan", "0,4", "0,-1", "0,much", ""])
def test_errors_that_make_no_curve_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(prediction_error, "--sigmas", text) == 1
    told = capsys.readouterr().err
    assert "--sigmas" in told
    assert "ascending" in told
