"""`cotenant simulate waits`: its runs, its page and its command."""

import json
from collections.abc import Mapping, Sequence

import pytest

from cotenant_api import prediction
from cotenant_predictor.colocation import speeds
from cotenant_simulator.commands import waits as command
from cotenant_simulator.engine import history
from cotenant_simulator.horus import published
from cotenant_simulator.report import page, tails
from cotenant_simulator.waits import experiment, report
from predictor_kit.commands import called
from simulator import jobs_kit

FIFO, DEFAULT, SIZE_ALONE = experiment.Way


def mix() -> Mapping[str, prediction.Prediction]:
    """Four models, one of each size."""
    found = {
        name: jobs_kit.needs(percent, upper=1.2 * percent, memory_mib=1000)
        for name, percent in {"small": 10.0, "middle": 35.0, "large": 55.0, "whole": 82.0}.items()
    }
    return {
        name: jobs_kit.believed(one, name=name).model_copy(update={"by_gpu": {published.GPU_MODEL: one}})
        for name, one in found.items()
    }


def ran(way: experiment.Way, *, seed: int = 1, load: float = 0.95) -> experiment.Figures:
    key = experiment.Key(way=way, load=load, count=150, seed=seed)
    return experiment.run(key, mix(), speeds.SpeedModel())


def test_every_job_is_placed_and_counts_in_the_class_of_what_it_booked() -> None:
    found = ran(FIFO)
    assert found.unplaced == 0
    assert sum(map(len, found.waits.values())) == 150
    assert all(found.waits[upper] for upper in experiment.CLASSES)
    assert [experiment.class_of(share) for share in (1, 25, 26, 75, 76, 100)] == [25, 25, 50, 75, 100, 100]


def test_the_same_key_gives_the_same_figures_and_a_lighter_load_shorter_waits() -> None:
    assert ran(DEFAULT) == ran(DEFAULT)
    light, heavy = (sum(map(sum, ran(DEFAULT, load=load).waits.values())) for load in (0.4, 1.4))
    assert light < heavy


def test_load_is_measured_by_the_pace_at_which_the_first_nine_tenths_end() -> None:
    lives = [history.Life(name=str(number), arrived=0.0, alone=1.0, ended=10.0 * number) for number in range(1, 11)]
    assert experiment.served_seconds(history.History(gpus=1, lives=lives)) == pytest.approx(100.0)


def figures(*waits: Sequence[float], makespan: float = 100.0) -> experiment.Figures:
    return experiment.Figures(
        waits=dict(zip(experiment.CLASSES, waits, strict=True)), makespan_seconds=makespan, unplaced=0
    )


def results(default_small: float) -> report.Results:
    def key(way: experiment.Way) -> experiment.Key:
        return experiment.Key(way=way, load=0.95, count=4, seed=1)

    return {
        key(FIFO): figures([100.0], [200.0], [300.0], []),
        key(DEFAULT): figures([default_small], [100.0], [300.0], []),
        key(SIZE_ALONE): figures([900.0], [100.0], [300.0], [], makespan=90.0),
    }


def test_the_page_says_whether_the_bar_is_met() -> None:
    assert "2.00 times that of FIFO with backfill (jobs of up to 25 hundredths): the bar of 2 is met" in (
        report.page_of(results(200.0), command="c").answer
    )
    assert "bar of 2 is missed" in report.page_of(results(201.0), command="c").answer


def test_the_page_has_a_row_for_each_class_and_order() -> None:
    first, second = report.page_of(results(150.0), command="c").tables
    assert [row[0] for row in first.rows] == ["1-25", "26-50", "51-75", "76-100"]
    assert first.rows[0][1:] == [1.0, 100.0, 100.0, 150.0, 150.0, 1.5]
    assert first.rows[3][1:] == [0.0, None, 0.0, None, 0.0, 1.0]
    assert [row[1] for row in second.rows] == [page.Estimate(value, value, value) for value in (100.0, 100.0, 90.0)]


def test_makespans_are_compared_with_the_default_order_of_the_same_jobs() -> None:
    _, makespans = report.page_of(results(150.0), command="c").tables
    fifo, default, alone = (row[2] for row in makespans.rows)
    assert fifo == page.Estimate(0.0, 0.0, 0.0)
    assert default is None
    assert isinstance(alone, page.Estimate)
    assert alone.mean == pytest.approx(-10.0)


def test_with_size_alone_nobody_is_helped_for_having_waited() -> None:
    assert experiment.Way.SIZE_ALONE.queue.max_wait_seconds > experiment.Way.DEFAULT.queue.max_wait_seconds
    assert experiment.Way.SIZE_ALONE.queue.order is experiment.Way.DEFAULT.queue.order


def test_percentiles_are_by_nearest_rank() -> None:
    assert tails.percentile([float(number) for number in range(1, 101)]) == 99
    assert tails.percentile([5.0]) == 5
    assert tails.percentile([]) == 0


def test_the_command_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(command, "--seeds", "1", "--jobs", "60", "--processes", "1", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["command"] == "cotenant simulate waits --seeds 1 --jobs 60"
    assert [one["up_to_hundredths"] for one in document["classes"]] == list(experiment.CLASSES)


@pytest.mark.parametrize(("option", "value"), [("--load", "0"), ("--load", "3"), ("--jobs", "0")])
def test_options_that_make_no_sense_are_refused(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(command, option, value) == 1
    assert f"{option}: {value}" in capsys.readouterr().err.replace("0.0", "0").replace("3.0", "3")
