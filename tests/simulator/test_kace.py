"""Partner choice: who is a candidate, what ways choose, and that nobody is judged by what it learned from."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cotenant_predictor.colocation import prior, profiles
from cotenant_predictor.datasets.joint import Run, Tenant
from cotenant_predictor.evaluation import colocation, partners, splits
from cotenant_predictor.training import colocation as training
from cotenant_simulator.kace import candidates, choosers, judging, report, scores
from cotenant_simulator.report import page
from simulator import groups_kit


def groups(members: Sequence[Sequence[int]], totals: Sequence[float]) -> partners.Pairs:
    """Groups of jobs 0 .. n, of which job n needs n times the memory and utilization of job 1."""
    count = 1 + max(max(group) for group in members)
    rows = np.full((count, len(profiles.COLUMNS)), np.nan)
    rows[:, profiles.INDEX["memory"]] = rows[:, profiles.INDEX["utilization"]] = 0.1 * np.arange(count)
    rows[:, profiles.INDEX["memoryUtilization"]] = 0.0
    size = len(members[0])
    return partners.Pairs(
        profiles=rows,
        jobs=tuple(range(count)),
        groups=tuple(f"g{job}" for job in range(count)),
        members=np.array(members),
        speed=np.repeat(np.array(totals)[:, None] / size, size, axis=1),
    )


def test_every_member_of_a_group_has_the_others_as_a_candidate() -> None:
    among = candidates.of(groups([(0, 1, 2)], [1.5]))
    assert among.target.tolist() == [0, 1, 2]
    assert among.others.tolist() == [[1, 2], [0, 2], [0, 1]]
    assert among.total == pytest.approx([1.5] * 3)


def test_a_job_beside_itself_is_one_target() -> None:
    among = candidates.of(groups([(0, 0), (0, 1)], [1.0, 1.2]))
    assert list(zip(among.target.tolist(), among.others[:, 0].tolist(), strict=True)) == [(0, 0), (0, 1), (1, 0)]


def test_candidates_that_are_liked_equally_count_by_their_mean() -> None:
    among = candidates.of(groups([(0, 1), (0, 2)], [1.0, 2.0]))
    choice = candidates.choices(among, np.zeros(4))[0]
    assert (choice.share, choice.hit, choice.taken) == (0.75, 0.5, (0, 2))


def test_what_a_way_says_nothing_of_is_no_candidate() -> None:
    among = candidates.of(groups([(0, 1), (0, 2)], [1.0, 2.0]))
    liking = np.where(among.group == 0, 1.0, np.nan)
    found = candidates.choices(among, liking)
    assert found[0].share == 1.0
    assert set(found) == {0, 1}


def test_rules_look_at_all_others_of_a_triple() -> None:
    among = candidates.of(groups([(0, 1, 2), (0, 1, 3), (0, 2, 3)], [1.0, 2.0, 3.0]))
    found = choosers.by_rule(among)
    share = {name: candidates.choices(among, found[name])[0].share for name in found}
    assert share[partners.MEMCAP] == pytest.approx(1 / 3)
    assert share[partners.SM_PERCENT] == 1.0
    assert share[choosers.LEAST_UTILIZATION] == pytest.approx(1 / 3)
    assert share[partners.RANDOM] == pytest.approx(2 / 3)
    assert share[partners.ORACLE] == 1.0


def test_published_models_learn_from_triples_as_from_pairs() -> None:
    members = [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    known = groups(members, [3.0 - 0.3 * sum(group) for group in members])
    for name in (partners.KACE, partners.FOREST):
        assert partners.published(name, known, known) == pytest.approx(known.total, abs=0.25)


def test_nothing_is_learned_from_the_jobs_of_a_judged_group_whatever_their_settings(tmp_path: Path) -> None:
    whole = groups_kit.bench(tmp_path, jobs=4).joint
    held = partners.pairs_of(whole, size=2).at(np.array([0]))
    jobs = [held.jobs[place] for place in held.members[0]]
    limited = Run(mechanism="MPS", tenants=tuple(Tenant(job=job, threads=0.5, speed=0.4) for job in jobs))
    train = dataclasses.replace(whole, runs=(*whole.runs, limited))
    left = [sorted(tenant.job for tenant in run.tenants) for run in judging.learnable(train, held).runs]
    assert sorted(jobs) not in left
    assert len(left) == len(whole.runs) - 1


@pytest.mark.parametrize("split", [splits.RANDOM, splits.LEAVE_GROUP_OUT])
def test_pairs_are_judged_as_by_the_evaluation_of_the_predictor(tmp_path: Path, split: str) -> None:
    bench = groups_kit.bench(tmp_path, jobs=7, sizes=(2,))
    expected = colocation.scored(bench, split=split, shuffles=1).share
    found = judging.judged(bench, split=split, size=2, shuffles=1)
    assert len(found) == 7
    for name in {*choosers.NAMES} & expected.keys():
        assert [target.ways[name].share for target in found] == pytest.approx(expected[name].tolist()), name


def test_triples_of_a_simulated_gpu_are_judged(tmp_path: Path) -> None:
    bench = groups_kit.bench(tmp_path, jobs=6)
    assert judging.sizes(bench) == {2: 15, 3: 20}
    found = judging.judged(bench, split=splits.RANDOM, size=3, shuffles=1)
    assert [target.candidates for target in found] == [10] * 6
    for target in found:
        assert target.ways[partners.ORACLE].share == 1.0
        assert all(0 < way.share <= 1 for way in target.ways.values())
        assert all(len(others) == 2 for others in target.ways[colocation.COTENANT].beside)


def test_jobs_without_a_choice_are_no_targets(tmp_path: Path) -> None:
    bench = groups_kit.bench(tmp_path, jobs=3, sizes=(2,))
    one = dataclasses.replace(bench, joint=bench.joint.take([0]))
    assert not any(target.candidates < 2 for target in judging.judged(bench, split=splits.RANDOM, size=2, shuffles=1))
    assert judging.sizes(one) == {2: 1}


def target(name: str, group: str, **shares: float) -> judging.Target:
    """Of which unnamed ways reach half."""
    ways = {
        way: judging.Judged(share=shares.get(way.replace("-", "_"), 0.5), hit=1.0, beside=()) for way in choosers.NAMES
    }
    ways[partners.ORACLE] = judging.Judged(share=1.0, hit=1.0, beside=())
    return judging.Target(name=name, group=group, gpu_model="A", candidates=3, best=1.5, ways=ways)


def test_scores_are_means_over_targets_with_intervals_over_groups() -> None:
    found = scores.of([target("a", "x", cotenant=1.0), target("b", "y", cotenant=0.8)])
    ours = found[colocation.COTENANT]
    assert ours.share.mean == pytest.approx(90)
    assert (ours.share.low, ours.share.high) == pytest.approx((80, 100))
    assert ours.gap is not None
    assert ours.gap.mean == pytest.approx(80)
    assert ours.best == 2
    assert found[partners.RANDOM].best == 0


def test_targets_of_one_group_have_no_interval() -> None:
    share = scores.of([target("a", "x", cotenant=1.0), target("b", "x", cotenant=0.8)])[colocation.COTENANT].share
    assert share == page.Estimate(share.mean, share.mean, share.mean)


def shown(*, simulated: bool = False, groups_by_size: dict[int, int] | None = None) -> page.Page:
    targets = {"A, MPS": [target("a", "x", cotenant=1.0)], "B, MPS": [target("b", "y", cotenant=0.8)]}
    result = report.Result(split=splits.RANDOM, size=2, targets=targets)
    source = report.Source(name="a set", facts=["As measured."], simulated=simulated, groups=groups_by_size or {2: 5})
    return report.page_of([result], source, command="cotenant simulate kace")


def test_a_set_without_triples_says_so() -> None:
    assert any(text.startswith("No triples are in these data") for text in shown().conditions)
    assert not any(
        text.startswith("No ") and "triples" in text for text in shown(groups_by_size={2: 5, 3: 9}).conditions
    )


def test_what_a_simulated_gpu_gave_is_called_simulated_and_what_was_published_published() -> None:
    assert {table.basis for table in shown().tables} == {page.Basis.MEASURED, page.Basis.PUBLISHED}
    assert {table.basis for table in shown(simulated=True).tables} == {page.Basis.SIMULATED, page.Basis.PUBLISHED}
    assert shown(simulated=True).document["simulated"] is True


def test_the_page_has_every_way_for_all_targets_and_by_gpu_model() -> None:
    whole, by_model, _ = shown().tables
    assert [row[0] for row in whole.rows] == [row[0] for row in by_model.rows] == list(choosers.NAMES)
    assert [column.title for column in by_model.columns] == ["chooser", "A, MPS", "B, MPS"]
    assert "Cotenant's model reaches 90.0 % of the best partner (as-asked 50.0 %" in shown().answer


def test_what_was_learned_of_another_mechanism_is_not_what_the_extender_asks(tmp_path: Path) -> None:
    joint = groups_kit.bench(tmp_path, jobs=6, sizes=(2,)).joint
    pairs = partners.pairs_of(joint, size=2)
    taught = training.learn(
        dataclasses.replace(joint, runs=tuple(dataclasses.replace(run, mechanism="TimeSlicing") for run in joint.runs)),
        ["TimeSlicing"],
    )
    found = choosers.predicted(taught, pairs, pairs, "TimeSlicing")
    untaught = prior.speeds(pairs.tenants(), "MPS").sum(axis=1)
    assert found[choosers.AS_ASKED] == pytest.approx(untaught)
    assert found[colocation.COTENANT] != pytest.approx(untaught)
