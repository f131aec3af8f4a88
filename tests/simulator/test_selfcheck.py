"""Whether a replay is the published experiment: planted defects are found."""

from pathlib import Path

import numpy as np
import pytest

from cotenant_api import errors
from cotenant_api.names import HUNDREDTHS
from cotenant_api.packingpolicy import Placement
from cotenant_extender.packing import best_fit, fleet, knowledge, placing, rules, view
from cotenant_simulator.openb import arrivals, cluster, expected, experiment, replay, selfcheck, trace
from simulator import oracle, synthetic

BEST_FIT = experiment.Setting("BestFit")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = synthetic.write(tmp_path)
    oracle.publish(tmp_path, names, seeds=[42])
    return tmp_path


def published(folder: Path) -> dict[expected.Run, expected.Curve]:
    return dict(expected.read(folder) or {})


def played(folder: Path, choose: replay.Choose) -> experiment.Result:
    read = trace.read(folder, "models")
    in_force = cluster.policy(Placement.BEST_FIT, max_tenants=cluster.MOST_TENANTS)
    outcome = replay.run(read, arrivals.order(read, seed=42), in_force, choose)
    return experiment.Result(key=experiment.Key("models", BEST_FIT, 42), outcome=outcome, seconds=0)


def require(folder: Path, choose: replay.Choose) -> None:
    selfcheck.require(played(folder, choose), published(folder)[expected.Run("models", "BestFit", 42)])


def test_the_placement_of_filter_comes_to_the_published_curve(folder: Path) -> None:
    require(folder, placing.choose)


def test_a_score_that_is_not_truncated_is_found(folder: Path) -> None:
    def exact(offers: rules.Offers, _known: knowledge.Knowledge) -> rules.Array:
        source, asked = offers.fleet, offers.request
        cpu = (source.free_cpu_millis - asked.host.cpu_millis) / 128_000
        share = (np.where(source.present, source.free, 0).sum(axis=1) - asked.demand.share) / 800
        return best_fit.node_first(offers, -cpu - share)

    def choose(source: fleet.Fleet, request: view.Request, known: knowledge.Knowledge) -> placing.Choice | None:
        return placing.best(rules.offers(source, request, check_host=True), exact, known)

    with pytest.raises(errors.PermanentError, match=r"self-check: models, BestFit, seed 42: column .* published"):
        require(folder, choose)


def test_ties_that_go_to_the_last_node_are_found(folder: Path) -> None:
    def last(offers: rules.Offers, known: knowledge.Knowledge) -> rules.Array:
        rows = np.arange(len(offers.fleet))[:, None]
        return best_fit.score(offers, known) + 2 * rows * (2 * HUNDREDTHS)

    def choose(source: fleet.Fleet, request: view.Request, known: knowledge.Knowledge) -> placing.Choice | None:
        return placing.best(rules.offers(source, request, check_host=True), last, known)

    with pytest.raises(errors.PermanentError, match="this is not the published experiment"):
        require(folder, choose)


def test_pods_without_gpu_that_are_not_placed_are_found(folder: Path) -> None:
    def choose(source: fleet.Fleet, request: view.Request, known: knowledge.Knowledge) -> placing.Choice | None:
        return placing.choose(source, request, known) if request.demand.share else None

    with pytest.raises(errors.PermanentError, match=r"pods were refused though they fit"):
        require(folder, choose)


def test_the_headline_must_agree_to_the_last_published_decimal() -> None:
    curve = expected.Curve(gpus=1, percent=(50.0,) * 131)
    found = [50.04] * 131
    assert [one.column for one in selfcheck.differences(tuple(found), curve)] == [100]
    found[100] = 50.004
    found[7] = 50.06
    assert [one.column for one in selfcheck.differences(tuple(found), curve)] == [7]


def test_a_column_in_which_nothing_arrived_is_off() -> None:
    curve = expected.Curve(gpus=1, percent=(50.0,) * 131)
    assert selfcheck.differences((*(50.0,) * 130, None), curve) == ((130, None, 50.0),)


def test_the_seeds_that_are_asked_for_are_compared_or_else_the_first_published() -> None:
    curve = expected.Curve(gpus=1, percent=(0.0,) * 131)
    runs = {expected.Run("t", policy, seed): curve for policy in ("BestFit", "FGD") for seed in (42, 43, 44)}
    assert selfcheck.runs(runs, "t", [43, 44, 99]) == (("t", "BestFit", 43), ("t", "BestFit", 44))
    assert selfcheck.runs(runs, "t", [99]) == (("t", "BestFit", 42),)
    assert selfcheck.runs(runs, "other", [42]) == ()


def test_curves_of_another_cluster_are_refused(folder: Path) -> None:
    read = trace.read(folder, "plain")
    with pytest.raises(errors.InvalidInputError, match=r"total_gpus: \[1\]: must be"):
        selfcheck.require_same_cluster(read, [expected.Curve(gpus=1, percent=(0.0,) * 131)])


def test_runs_at_another_load_are_not_read(folder: Path) -> None:
    file = folder / expected.FILE
    file.write_text(file.read_text(encoding="utf-8").replace(",1.3,42,", ",1.0,42,", 1), encoding="utf-8")
    assert len(published(folder)) == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (",1.3,42,", ",1.3,42,x", r"expected_allocation_percent.csv:2: total_gpus: 'x"),
        (",1.3,42,", ",much,42,", r"expected_allocation_percent.csv:2: tune: 'much': must be a number from 0 to 130"),
        (",1.3,42,", ",nan,42,", r"expected_allocation_percent.csv:2: tune: 'nan'"),
        (",130\n", ",131\n", r"expected_allocation_percent.csv:1: .*missing: 130"),
    ],
)
def test_a_figure_that_cannot_be_read_is_named(folder: Path, old: str, new: str, said: str) -> None:
    file = folder / expected.FILE
    file.write_text(file.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(errors.InvalidInputError, match=said):
        expected.read(folder)


def test_without_a_file_nothing_is_published(tmp_path: Path) -> None:
    assert expected.read(tmp_path) is None
