"""Inference beside training: what is drawn, how it runs together, and what is told of it."""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cotenant_api import errors, packingpolicy
from cotenant_api.graph import Graph, Mode
from cotenant_extender.packing import policies
from cotenant_predictor import devices
from cotenant_predictor.colocation import speeds
from cotenant_predictor.jobs import prediction as predicting
from cotenant_simulator.commands import simulate
from cotenant_simulator.engine import interference
from cotenant_simulator.inference_mix import experiment, floor, population, report
from cotenant_simulator.report import page
from cotenant_simulator.twin import sites
from simulator import jobs_kit

SCALE = population.Scale(gpus=4, services=3, hours=0.5, load=(0.1, 0.5), promise=5.0)
SETTINGS = {setting.name: setting for setting in experiment.SETTINGS}
EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples" / "graphs"


def mix() -> population.Mix:
    (device,) = devices.select(["NVIDIA-A100-SXM4-80GB"])
    return population.mix(population.shipped(), device, predicting.FORMULA)


def service(name: str, *, load: float, busy: float, arrives: float = 0.0) -> population.Service:
    """One that keeps the GPU busy for so much of the time while it answers, with steps of 100 ms."""
    average, answering = jobs_kit.needs(load * busy), jobs_kit.needs(busy)
    return population.Service(
        name=name,
        arrives=arrives,
        predicted=jobs_kit.believed(average, name=name),
        average=average,
        answering=answering,
        batches_per_second=10 * load,
        step_seconds=0.1,
        promised_seconds=0.5,
    )


def training(name: str, percent: float, *, seconds: float = 1000.0, arrives: float = 0.0) -> population.Training:
    needs = jobs_kit.needs(percent)
    return population.Training(
        name=name, arrives=arrives, predicted=jobs_kit.believed(needs, name=name), needs=needs, seconds=seconds
    )


def ran(
    services: Sequence[population.Service],
    trainings: Sequence[population.Training],
    *,
    gpus: int = 1,
    until: float = 3000.0,
    priorities: bool = True,
    **packing: object,
) -> floor.Outcome:
    made = floor.Floor(
        sites.alike(gpus, gpus=1, model=jobs_kit.MODEL, memory_mib=jobs_kit.GPU_MIB),
        jobs_kit.policy(**packing),
        speeds=interference.Interference(speeds.SpeedModel(), interference.MPS),
        priorities=priorities,
    )
    return made.run(services, trainings, until=until)


def speeds_of(life: floor.Life) -> list[tuple[float, float]]:
    return [(one.seconds, round(one.speed, 6)) for one in life.speeds]


def test_service_without_neighbours_is_as_fast_as_alone() -> None:
    found = ran([service("a", load=0.5, busy=80)], [])
    assert speeds_of(found.services[0]) == [(0.0, 1.0)]


def test_service_that_answers_takes_from_training_and_training_from_it() -> None:
    # Booked 20 and 60; while it answers the service needs 80 of the SMs beside 60.
    found = ran([service("a", load=0.25, busy=80)], [training("t", 60)], priorities=False)
    (_, before), (_, beside), (_, after) = speeds_of(found.services[0])
    assert before == after == 1.0
    assert beside == pytest.approx(0.5 / 0.8)
    assert found.trainings[0].ended == pytest.approx(1000.0)


def test_with_client_priority_training_takes_nothing_from_a_service() -> None:
    found = ran([service("a", load=0.25, busy=80)], [training("t", 60)])
    assert {speed for _, speed in speeds_of(found.services[0])} == {1.0}


def test_service_that_joins_training_finds_it_at_normal_priority() -> None:
    found = ran([service("a", load=0.25, busy=80, arrives=100.0)], [training("t", 60)])
    assert speeds_of(found.services[0])[0] == (100.0, 0.625)


def test_exclusive_shares_nothing() -> None:
    found = ran([service("a", load=0.1, busy=50)], [training("t", 10)], placement="Exclusive")
    assert speeds_of(found.services[0]) == [(0.0, 1.0)]
    assert found.trainings[0].started is None
    assert found.occupied == pytest.approx(1.0)


def test_by_memory_only_training_is_slowed_by_training() -> None:
    found = ran([], [training("a", 80), training("b", 80)], placement="MemoryOnly")
    assert [life.ended for life in found.trainings] == [pytest.approx(1600.0)] * 2
    assert [life.ran / life.worked for life in found.trainings] == [pytest.approx(1.6)] * 2


def test_training_is_evicted_for_a_service_and_begins_anew() -> None:
    found = ran([service("a", load=0.5, busy=100, arrives=300.0)], [training("t", 80)], until=2000.0)
    (life,) = found.trainings
    assert life.evictions == 1
    assert (life.lost, life.worked) == pytest.approx((300.0, 0.0))
    assert found.services[0].started == pytest.approx(300.0)


def test_what_has_not_ended_counts_as_far_as_it_has_come() -> None:
    found = ran([], [training("t", 50, seconds=5000.0)], until=1000.0)
    (life,) = found.trainings
    assert life.ended is None
    assert (life.worked, life.ran) == pytest.approx((1000.0, 1000.0))
    assert found.utilization == pytest.approx(0.5)


def test_graphs_that_ship_are_those_of_the_examples() -> None:
    examples = {file.stem: Graph.read(file.read_bytes(), source=file.name) for file in EXAMPLES.glob("*.json")}
    # Where an example has changed: write `Graph.packed()` of it to simulator/cotenant_simulator/inference_mix/graphs.
    assert population.shipped() == population.read(EXAMPLES) == examples


def test_services_are_booked_for_the_rate_that_they_are_asked_at() -> None:
    known = mix()
    for one in population.services(known, SCALE, seed=1):
        busy = one.answering.utilization.q50
        load = one.batches_per_second * one.step_seconds
        assert 0.1 <= load <= 0.5
        assert one.average.utilization.q50 == pytest.approx(load * busy, rel=0.02, abs=0.02)
        assert one.promised_seconds == pytest.approx(5 * one.step_seconds)


def test_half_of_the_services_are_there_from_the_start_and_all_in_the_first_half() -> None:
    times = [one.arrives for one in population.services(mix(), SCALE, seed=1)]
    assert times == sorted(times)
    assert (times.count(0.0), max(times) <= SCALE.seconds / 2) == (2, True)


def test_training_comes_as_if_to_fill_the_gpus_more_than_once() -> None:
    known, scale = mix(), dataclasses.replace(SCALE, hours=100.0)
    drawn = population.trainings(known, scale, seed=1)
    asked = sum(one.seconds for one in drawn) / (scale.gpus * scale.seconds)
    assert asked == pytest.approx(population.TRAINING_LOAD, rel=0.1)
    assert all(120 <= one.seconds <= 7200 for one in drawn)
    assert [one.arrives for one in drawn] == sorted(one.arrives for one in drawn)


def test_graphs_of_one_mode_alone_are_no_mix() -> None:
    (device,) = devices.select(["NVIDIA-A100-SXM4-80GB"])
    training_alone = {name: graph for name, graph in population.shipped().items() if graph.mode is Mode.TRAINING}
    with pytest.raises(errors.InvalidInputError, match="must hold a graph of mode Inference"):
        population.mix(training_alone, device, predicting.FORMULA)


def test_exclusive_answers_soonest_and_trains_least_and_sharing_by_memory_slows_training_most() -> None:
    known, model = mix(), speeds.SpeedModel()
    alone, packed, by_memory = (
        experiment.run(SETTINGS[name], known, model, SCALE, seed=3).figures
        for name in (experiment.BASE, report.SHIPPED, "MemoryOnly, no client priority")
    )
    assert alone.p99_milliseconds <= min(packed.p99_milliseconds, by_memory.p99_milliseconds)
    assert packed.training_hours > alone.training_hours
    assert by_memory.slowdown_mean_percent > packed.slowdown_mean_percent
    assert alone.slowdown_worst_percent == pytest.approx(0.0, abs=1e-9)


def test_every_setting_is_a_policy_that_an_admin_may_set() -> None:
    for setting in experiment.SETTINGS:
        spec = packingpolicy.Spec.model_validate(setting.packing)
        assert policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=spec)).places


def results() -> list[experiment.Result]:
    known, model = mix(), speeds.SpeedModel()
    chosen = [SETTINGS[name] for name in (experiment.BASE, report.SHIPPED, "MemoryOnly")]
    return [
        experiment.Result(
            setting=setting,
            runs={seed: experiment.run(setting, known, model, SCALE, seed=seed) for seed in (1, 2)},
        )
        for setting in chosen
    ]


def test_page_compares_with_the_first_and_says_what_it_rests_on() -> None:
    shown = report.page_of(results(), mix(), SCALE, model="formula-1", command="a command")
    services, trainings = shown.tables
    assert [row[0] for row in services.rows] == [experiment.BASE, report.SHIPPED, "MemoryOnly"]
    assert trainings.rows[0][2] == page.Estimate(1.0, 1.0, 1.0)
    assert all(part.basis is page.Basis.SIMULATED for part in shown.parts)
    assert any(condition.startswith("Assumed") for condition in shown.conditions)
    assert [one["seed"] for one in shown.document["settings"][0]["seeds"]] == [1, 2]
    json.dumps(shown.document, allow_nan=False)


def test_a_service_that_was_never_placed_is_said_so() -> None:
    (base, *_) = results()
    figures = {
        seed: dataclasses.replace(run, figures=dataclasses.replace(run.figures, service_wait_seconds=None))
        for seed, run in base.runs.items()
    }
    shown = report.page_of(
        [dataclasses.replace(base, runs=figures)], mix(), SCALE, model="formula-1", command="a command"
    )
    assert shown.tables[0].rows[0][-1] == "never"


def called(*words: str) -> int:
    parser = argparse.ArgumentParser()
    simulate.configure(parser)
    return simulate.run(parser.parse_args(["inference-mix", *words]))


FEW = ("--gpus", "3", "--services", "2", "--hours", "0.2", "--seeds", "1-2", "--processes", "1")


def test_same_seeds_give_the_same_bytes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said, pages = [], [tmp_path / "a.html", tmp_path / "b.html"]
    for file in pages:
        assert called(*FEW, "--json", "--html", str(file)) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert json.loads(said[0])["simulated"] is True


def test_section_of_a_page_is_filled(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    target.write_text(
        "# A\n\n<!-- begin: cotenant simulate inference-mix -->\n<!-- end: cotenant simulate inference-mix -->\n"
    )
    assert called(*FEW, "--seeds", "1", "--write", str(target)) == 0
    assert "p99 ms" in capsys.readouterr().out
    assert "| Exclusive |" in target.read_text()
    assert "`cotenant simulate inference-mix --seeds 1 --gpus 3 " in target.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--load", "0.5"), "--load"),
        (("--load", "0.5-1.0"), "below 1"),
        (("--gpus", "0"), "--gpus: 0: must be 1 to"),
        (("--hours", "nan"), "--hours"),
        (("--hours", "0.01", "--load", "0.000001-0.000001"), "answers a request"),
        (("--gpu-model", "Abacus"), "Abacus"),
        (("--graphs", "nowhere"), "must be a folder"),
    ],
)
def test_bad_argument_is_refused(words: Sequence[str], message: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=message):
        called(*FEW, *words)


def test_graph_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(errors.InvalidInputError, match=r"broken\.json"):
        called(*FEW, "--graphs", str(tmp_path))
