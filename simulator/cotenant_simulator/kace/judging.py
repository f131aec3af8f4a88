"""Every way on every target of one measured bench, each judged by groups that it has not learned from.

The splits are those of `cotenant evaluate`: `random` holds out groups in five parts, several times anew; the others
hold out every run in which a job of the target's label has a part. Besides, no run of the same jobs under other
settings is learned from. Pure; the same bench gives the same result.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from cotenant_predictor.datasets.joint import Joint, Run
from cotenant_predictor.evaluation import colocation, partners
from cotenant_predictor.training import colocation as training
from cotenant_predictor.trees import Array
from cotenant_simulator.kace import candidates, choosers

SIZES: Final = (2, 3)
"""Pairs and triples."""
_MOST_NAMED: Final = 4

Choices: TypeAlias = Mapping[int, candidates.Choice]
"""By target."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a way reached for one target: means over the shuffles.

    Attributes:
        share: of the oracle's sum of speeds, 0..1.
        hit: how often it takes a candidate that the oracle would, 0..1.
        beside: the others that it likes best in the first shuffle, by name; none where it likes many equally.
    """

    share: float
    hit: float
    beside: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One job on one GPU model.

    Attributes:
        name: of the job.
        group: whose jobs fail together: what intervals draw.
        gpu_model: where.
        candidates: how many groups it was measured in.
        best: the largest sum of speeds among them.
        ways: what each way reached, by name.
    """

    name: str
    group: str
    gpu_model: str
    candidates: int
    best: float
    ways: Mapping[str, Judged]


def sizes(bench: colocation.Bench) -> dict[int, int]:
    """Return how many groups were measured, by size; sizes without any are left out."""
    counts = {size: len(partners.pairs_of(bench.joint, size=size).members) for size in SIZES}
    return {size: count for size, count in counts.items() if count}


def judged(bench: colocation.Bench, *, split: str, size: int, shuffles: int = colocation.SHUFFLES) -> list[Target]:
    """Targets for which there is a choice, in the order of the bench.

    Args:
        bench: one GPU model and mechanism.
        split: one of `splits.KINDS`.
        size: of the groups, of `SIZES`.
        shuffles: how often `random` shuffles.

    Raises:
        InvalidInputError: the split cannot be made of these runs.
    """
    among = candidates.of(partners.pairs_of(bench.joint, size=size))
    likings = [choosers.by_rule(among) | said for said in _said(bench, among, split=split, shuffles=shuffles)]
    found = [{name: candidates.choices(among, liking) for name, liking in one.items()} for one in likings]
    targets = (_target(bench, among, place, found) for place in np.unique(among.target).tolist())
    return [target for target in targets if target is not None]


def _said(
    bench: colocation.Bench, among: candidates.Candidates, *, split: str, shuffles: int
) -> list[dict[str, Array]]:
    """Return the sums that models predict of each candidate while it was held out, by shuffle and name."""
    size = among.groups.members.shape[1]
    said: list[dict[str, Array]] = []
    for fold in colocation.folds(bench, split, shuffles=shuffles):
        while len(said) <= fold.shuffle:
            said.append({name: np.full(len(among.group), np.nan) for name in choosers.LEARNED})
        asked = _asked(bench, among, fold, split)
        rows = np.unique(among.group[asked])
        held = among.groups.at(rows)
        train = learnable(fold.train, held)
        model = training.learn(train, [bench.mechanism])
        sums = choosers.predicted(model, partners.pairs_of(train, size=size), held, bench.mechanism)
        row = np.searchsorted(rows, among.group[asked])
        for name, values in sums.items():
            said[fold.shuffle][name][asked] = values[row]
    return said


def _asked(bench: colocation.Bench, among: candidates.Candidates, fold: colocation.Fold, split: str) -> Array:
    """Positions of the candidates that this fold judges."""
    groups, size = among.groups, among.groups.members.shape[1]
    runs = [bench.joint.runs[run] for run in fold.runs]
    held = {_jobs(run) for run in runs if partners.is_plain(run, size=size)}
    here = np.array([_members(groups, row) in held for row in range(len(groups.members))])[among.group]
    if fold.judged is not None:
        kind = colocation.label_of(split)
        labels = [str(getattr(bench.joint.jobs[groups.jobs[place]], kind)) for place in among.target]
        here &= np.isin(labels, sorted(fold.judged))
    return np.flatnonzero(here)


def learnable(train: Joint, held: partners.Pairs) -> Joint:
    """Return what may be learned from: no run of the jobs of a group that is judged, whatever its settings."""
    names = {_members(held, row) for row in range(len(held.members))}
    return train.where(lambda run: _jobs(run) not in names)


def _members(groups: partners.Pairs, row: int) -> tuple[int, ...]:
    return tuple(groups.jobs[place] for place in groups.members[row])


def _jobs(run: Run) -> tuple[int, ...]:
    return tuple(sorted(tenant.job for tenant in run.tenants))


def _target(
    bench: colocation.Bench, among: candidates.Candidates, place: int, found: Sequence[Mapping[str, Choices]]
) -> Target | None:
    """None where there is no choice, or a way has nothing to say: too few groups may be left to learn from."""
    here = np.flatnonzero(among.target == place)
    if len(here) < 2 or any(place not in ways for one in found for ways in one.values()):
        return None
    job = bench.joint.jobs[among.groups.jobs[place]]
    ways = {name: _judged(bench, among, [one[name][place] for one in found]) for name in found[0]}
    ways[partners.BEST_RULE] = max((ways[name] for name in partners.RULES), key=lambda way: way.share)
    return Target(
        name=_name(bench, among, place),
        group=job.group,
        gpu_model=job.gpu_model,
        candidates=len(here),
        best=float(among.total[here].max()),
        ways={name: ways[name] for name in choosers.NAMES},
    )


def _judged(bench: colocation.Bench, among: candidates.Candidates, found: Sequence[candidates.Choice]) -> Judged:
    beside = [tuple(_name(bench, among, other) for other in among.others[one]) for one in found[0].taken]
    return Judged(
        share=statistics.fmean(one.share for one in found),
        hit=statistics.fmean(one.hit for one in found),
        beside=tuple(beside) if len(beside) < _MOST_NAMED else (),
    )


def _name(bench: colocation.Bench, among: candidates.Candidates, place: int) -> str:
    job = bench.joint.jobs[among.groups.jobs[place]]
    return job.graph.name if job.name == job.graph.digest else job.name
