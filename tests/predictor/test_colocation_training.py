"""Learning and scoring jobs together, on shipped pairs and on measurement files."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cotenant_api import errors
from cotenant_api.graph import Graph
from cotenant_api.measurement import Measurement, Mechanism, Outcome, Values
from cotenant_predictor.colocation import profiles
from cotenant_predictor.colocation.prior import UNRECORDED
from cotenant_predictor.datasets import gavel, joint
from cotenant_predictor.datasets.joint import Joint
from cotenant_predictor.datasets.measurements import Measurements
from cotenant_predictor.evaluation import colocation, colocation_curve, partners, splits
from cotenant_predictor.training import colocation as training
from cotenant_predictor.trees import Array


@parametrize_with_checks([training.SpeedRegressor(n_estimators=5)])  # type: ignore[untyped-decorator]
def test_the_regressor_keeps_the_conventions_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def rows_of(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Rows of (own need, neighbour's need, prior) with speeds that a busy neighbour makes smaller still."""
    generator = np.random.default_rng(seed)
    needs = generator.random((count, 2))
    base = np.minimum(1.0, 1.0 / np.maximum(needs.sum(axis=1), 1e-9))
    return np.column_stack([needs, base]), base * (1 - 0.3 * needs[:, 1])


def regressor(**more: Any) -> training.SpeedRegressor:
    return training.SpeedRegressor(columns=(1, 1), prior_column=2, n_estimators=5, **more)


def test_a_learned_correction_is_better_than_the_prior_on_rows_it_has_not_seen() -> None:
    found, speed = rows_of(200)
    model = regressor().fit(found[:150], speed[:150])
    missed = np.abs(model.predict(found[150:]) - speed[150:]).mean()
    assert missed < 0.3 * np.abs(found[150:, 2] - speed[150:]).mean()
    assert model.kind_ != training.NOTHING


def test_where_the_prior_is_right_nothing_is_corrected() -> None:
    found, _ = rows_of(100)
    model = regressor().fit(found, found[:, 2])
    assert model.kind_ == training.NOTHING
    assert model.predict(found) == pytest.approx(found[:, 2], abs=1e-5)


def test_the_lower_bound_covers_groups_that_were_held_out() -> None:
    found, speed = rows_of(300)
    noisy = np.clip(speed + np.random.default_rng(1).normal(0, 0.05, 300), 0, 1)
    groups = np.arange(300) % 30
    model = regressor(level=0.8).fit(found[:200], noisy[:200], groups=groups[:200])
    covered = (noisy[200:] >= model.lower(found[200:])).mean()
    assert 0.7 <= covered <= 0.98


def test_a_level_outside_of_0_and_1_is_refused() -> None:
    with pytest.raises(ValueError, match=r"level is 1\.5"):
        regressor(level=1.5).fit(*rows_of(20))


def line(
    graph: Graph, *, others: Sequence[Graph] = (), speed: float | None = None, run: str = "r", **more: Any
) -> Measurement:
    """A measured line of a job, alone or beside others."""
    values = {"normalizedSpeed": speed, **more.pop("values", {})}
    names = [field.alias or name for name, field in Values.model_fields.items()]
    return Measurement.from_object(
        {
            "v": 1,
            "id": run,
            "group": more.pop("group", graph.name),
            "graph": graph.digest,
            "gpuModel": "NVIDIA-H200",
            "mechanism": str(Mechanism.MPS if others else Mechanism.ALONE),
            "coTenants": [{"graph": other.digest} for other in others],
            "durationSeconds": 1.0,
            "outcome": str(Outcome.OK),
            "simulated": False,
            "values": values,
            "reasons": dict.fromkeys(names, "not measured here"),
            "environment": dict.fromkeys(("driver", "cuda", "torch", "cpu", "commit"), "x"),
            **more,
        },
        source="test",
    )


@pytest.fixture(scope="module")
def graphs(build: Any) -> list[Graph]:
    return [
        graph.model_copy(update={"digest": graph.computed_digest()})
        for size in range(6)
        for graph in [build.graph(build.matmul(flops=2 ** (34 + size)), name=f"net{size}", batch_size=8 << size)]
    ]


def measured_of(graphs: Iterable[Graph], records: Iterable[Measurement]) -> Measurements:
    return Measurements(records=tuple(records), graphs={graph.digest: graph for graph in graphs})


def test_lines_that_share_an_id_are_one_run_of_jobs_that_are_known_alone(
    graphs: list[Graph],
) -> None:
    first, second, *_ = graphs
    lines = [
        line(first, run="alone", values={"utilization": 40.0}),
        line(first, run="alone again", repeat=1, values={"utilization": 50.0}),
        # What a job does while a tenant is measured is no measure of everybody's pairs.
        line(first, run="of a tenant", namespace="team", group="forged", values={"utilization": 1.0}),
        line(first, others=[second], speed=0.8, threadPercentage=50, clientPriority=1),
        line(second, others=[first], speed=0.6),
    ]
    found = joint.of_measurements(measured_of(graphs, lines))
    (run,) = found.runs
    assert [(tenant.speed, tenant.threads, tenant.priority) for tenant in run.tenants] == [(0.8, 0.5, 1), (0.6, 1.0, 0)]
    assert found.jobs[run.tenants[0].job].alone["utilization"] == pytest.approx(45.0)
    assert "forged" not in {job.group for job in found.jobs}
    assert not found.jobs[run.tenants[1].job].alone


def test_a_tenant_without_a_line_of_its_own_is_there_without_a_speed(graphs: list[Graph]) -> None:
    first, second, *_ = graphs
    (run,) = joint.of_measurements(measured_of(graphs, [line(first, others=[second, first], speed=0.5)])).runs
    assert len(run.tenants) == 3
    assert [np.isnan(tenant.speed) for tenant in run.tenants] == [False, True, True]


def test_a_run_that_ended_out_of_memory_did_not_run(graphs: list[Graph]) -> None:
    first, second, *_ = graphs
    lines = [
        line(first, others=[second], outcome="OutOfMemory"),
        line(second, others=[first], speed=1.0),
    ]
    found = joint.of_measurements(measured_of(graphs, lines))
    assert [run.ran for run in found.runs] == [False]
    assert not found.of_mechanism("MPS").runs


def test_lines_of_other_repeats_are_other_runs(graphs: list[Graph]) -> None:
    first, second, *_ = graphs
    lines = [line(first, others=[second], speed=speed, repeat=repeat) for repeat, speed in enumerate((0.5, 0.7))]
    assert len(joint.of_measurements(measured_of(graphs, lines)).runs) == 2


def test_measured_files_are_scored_by_the_same_harness_as_the_shipped_pairs(graphs: list[Graph]) -> None:
    lines = [
        line(one, others=[other], speed=1.0 - 0.08 * (index + place), run=f"{index}-{place}")
        for index, first in enumerate(graphs)
        for place, second in enumerate(graphs[index:], index)
        for one, other in ((first, second), (second, first))[: 2 if first is not second else 1]
    ]
    lines += [line(graph, others=[graph], speed=0.5, run=f"{index}-{index}") for index, graph in enumerate(graphs)]
    found = joint.of_measurements(measured_of(graphs, lines))
    rows = colocation.rows(found, split=splits.LEAVE_GROUP_OUT)
    by_model = {row.model: row.value for row in rows if row.metric == "shareOfOracle"}
    assert by_model[partners.ORACLE] == 1.0
    assert all(0.0 < value <= 1.0 for value in by_model.values())
    assert {row.group for row in rows} == {None}
    errors_by_model = {row.model: row.value for row in rows if row.metric == "mae"}
    assert set(errors_by_model) == {"constant", "physics", "cotenant"}


@pytest.fixture(scope="module")
def shipped() -> Joint:
    return gavel.load()


@pytest.mark.parametrize(
    ("gpu_model", "pairs", "chance"),
    [("Tesla-K80", 306, 0.8736), ("Tesla-P100-PCIE-16GB", 340, 0.7793), ("Tesla-V100-SXM2-16GB", 330, 0.7069)],
)
def test_the_mean_over_all_partners_is_the_published_one(
    shipped: Joint, gpu_model: str, pairs: int, chance: float
) -> None:
    (bench,) = [bench for bench in colocation.benches(shipped) if bench.gpu_model == gpu_model]
    assert len(bench.pairs.members) == pairs
    fixed = partners.fixed(bench.pairs)
    assert np.nanmean(fixed[partners.RANDOM]) == pytest.approx(chance, abs=5e-5)
    assert np.nanmin(fixed[partners.ORACLE]) == 1.0
    assert (fixed[partners.BEST_RULE][np.isfinite(fixed[partners.BEST_RULE])] <= 1.0).all()


def pairs_of(totals: Sequence[float]) -> partners.Pairs:
    """Measured pairs of three jobs with these sums."""
    members = np.array([[0, 1], [0, 2], [1, 2]])
    speed = np.column_stack([np.array(totals) / 2, np.array(totals) / 2])
    return partners.Pairs(
        profiles=np.tile(np.arange(3.0)[:, None], (1, len(profiles.COLUMNS))),
        jobs=(0, 1, 2),
        groups=("a", "b", "c"),
        members=members,
        speed=speed,
    )


def test_rules_look_at_one_figure_of_the_partner() -> None:
    fixed = partners.fixed(pairs_of([1.0, 2.0, 1.5]))
    assert fixed[partners.MEMCAP].tolist() == [0.5, 1.0 / 1.5, 1.0]
    assert fixed[partners.SM_PERCENT].tolist() == [1.0, 1.0, 0.75]
    assert fixed[partners.BEST_RULE].tolist() == [1.0, 1.0, 1.0]


def test_equally_liked_partners_count_with_their_mean() -> None:
    found = partners.scores(pairs_of([1.0, 2.0, 1.5]), np.zeros((3, 3)))
    assert found.tolist() == pytest.approx([0.75, 1.25 / 1.5, 1.75 / 2.0])


def test_partners_about_which_nothing_is_said_are_no_candidates() -> None:
    wanted = np.full((3, 3), np.nan)
    wanted[0, 1] = 1.0
    found = partners.scores(pairs_of([1.0, 2.0, 1.5]), wanted)
    assert found[0] == 1.0
    assert np.isnan(found[1:]).all()


def test_held_out_groups_have_no_part_in_what_is_learned(shipped: Joint) -> None:
    bench = next(iter(colocation.benches(shipped)))
    for fold in colocation.folds(bench, splits.LEAVE_GROUP_OUT, shuffles=1):
        known = {label for labels in fold.train.labels("group") for label in labels}
        assert not known & set(fold.judged or ())


def test_repeats_of_a_pair_are_held_out_together(shipped: Joint) -> None:
    bench = next(iter(colocation.benches(shipped)))
    doubled = dataclasses.replace(bench, joint=dataclasses.replace(bench.joint, runs=bench.joint.runs * 2))
    for fold in colocation.folds(doubled, splits.RANDOM, shuffles=1):
        held = {tuple(tenant.job for tenant in doubled.joint.runs[run].tenants) for run in fold.runs}
        assert not held & {tuple(tenant.job for tenant in run.tenants) for run in fold.train.runs}


def test_a_pair_is_predicted_by_what_was_learned_without_it_whatever_its_other_settings(shipped: Joint) -> None:
    bench = next(iter(colocation.benches(shipped)))
    limited = tuple(
        dataclasses.replace(run, tenants=tuple(dataclasses.replace(tenant, threads=0.5) for tenant in run.tenants))
        for run in bench.joint.runs
    )
    both = dataclasses.replace(bench, joint=dataclasses.replace(bench.joint, runs=bench.joint.runs + limited))
    judged = set()
    for fold in colocation.folds(both, splits.RANDOM, shuffles=1):
        held = {tuple(pair) for pair in both.pairs.members[colocation.held_pairs(both, fold)].tolist()}
        jobs = both.pairs.jobs
        known = {(jobs.index(one), jobs.index(other)) for one, other in partners_of(fold.train)}
        assert not held & known
        judged |= held
    assert judged == {tuple(pair) for pair in both.pairs.members.tolist()}


def partners_of(known: Joint) -> set[tuple[int, int]]:
    """The plain pairs of these runs, as positions of their jobs."""
    pairs = partners.pairs_of(known)
    return {(pairs.jobs[first], pairs.jobs[second]) for first, second in pairs.members}


def test_a_split_that_cannot_be_made_is_refused(shipped: Joint) -> None:
    one = shipped.where(lambda run: run.mechanism == UNRECORDED).take([0])
    with pytest.raises(errors.InvalidInputError, match="at least 2"):
        colocation.rows(one, split=splits.LEAVE_FAMILY_OUT)
    with pytest.raises(errors.InvalidInputError, match="another GPU model"):
        colocation.rows(one, split=splits.LEAVE_GPU_OUT)
    with pytest.raises(errors.InvalidInputError, match="must be one of"):
        colocation.rows(one, split="at-will")
    with pytest.raises(errors.InvalidInputError, match="no speed"):
        colocation.rows(one.take([]), split=splits.RANDOM)


def test_a_learning_curve_tells_error_and_time_for_more_and_more_rows(shipped: Joint) -> None:
    one = shipped.where(lambda run: shipped.jobs[run.tenants[0].job].gpu_model == "Tesla-K80")
    ticks = iter(range(1000))
    found = colocation_curve.rows(one, split=splits.LEAVE_GROUP_OUT, clock=lambda: float(next(ticks)))
    sizes = [row.training_rows or 0 for row in found if row.metric == "mae"]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == len(colocation_curve.SHARES)
    assert {row.value for row in found if row.metric == "fitSeconds"} == {1.0}


def test_runs_under_thread_percentages_count_for_speeds_but_not_for_the_choice_of_partners(graphs: list[Graph]) -> None:
    lines = [
        line(one, others=[other], speed=0.5 + 0.01 * index, run=f"{index}", threadPercentage=50)
        for index, (first, second) in enumerate(itertools.combinations(graphs, 2))
        for one, other in ((first, second), (second, first))
    ]
    rows = colocation.rows(joint.of_measurements(measured_of(graphs, lines)), split=splits.RANDOM, shuffles=1)
    assert {row.target for row in rows} == {colocation.SPEED}


@pytest.fixture
def with_a_lone_pair(shipped: Joint) -> Joint:
    """The pairs of one GPU model, and one pair of a mechanism that was tried once."""
    one = shipped.where(lambda run: shipped.jobs[run.tenants[0].job].gpu_model == "Tesla-K80")
    unlike = zip(one.runs, one.labels("family"), strict=True)
    lone = next(run for run, families in unlike if run.ran and len(set(families)) == 2)
    return dataclasses.replace(one, runs=(*one.runs, dataclasses.replace(lone, mechanism="TimeSlicing")))


def test_a_mechanism_with_too_few_runs_for_a_split_does_not_keep_others_from_it(with_a_lone_pair: Joint) -> None:
    said: list[str] = []
    rows = colocation.rows(with_a_lone_pair, split=splits.RANDOM, shuffles=1, progress=said.append)
    assert {row.group for row in rows} == {None}
    assert "Tesla-K80, TimeSlicing: no random: random: 1: needs at least 2 rows" in said
    assert colocation_curve.rows(with_a_lone_pair, split=splits.RANDOM, clock=iter(np.arange(99.0)).__next__)


def test_targets_count_where_every_model_has_a_say(with_a_lone_pair: Joint) -> None:
    rows = colocation.rows(with_a_lone_pair, split=splits.LEAVE_FAMILY_OUT)
    assert "Tesla-K80, TimeSlicing" in {row.group for row in rows}
    shares = [row for row in rows if row.metric == "shareOfOracle" and row.group is None]
    assert {row.model for row in shares} >= {partners.KACE, partners.FOREST, colocation.COTENANT}
    assert all(0.0 < row.value <= 1.0 for row in shares)
    assert len({row.n for row in shares}) == 1


def test_jobs_are_not_profiled_again_for_a_part_of_the_runs(shipped: Joint) -> None:
    assert shipped.take([0, 1]).profiles is shipped.profiles
