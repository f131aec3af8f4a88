"""Jobs together: which partner each model chooses, and how far off the speeds are, for pairs and jobs it has not seen.

Every GPU model and mechanism is learned and scored by itself. `random` holds out pairs (k-fold, several shuffles);
`leave-group-out` and `leave-family-out` hold out every run in which a job of the target's group or family has a part;
`leave-gpu-out` learns from the other GPU models. Targets are jobs; intervals are over their groups. Partners are chosen
among plain pairs (`partners.is_plain_pair`); speeds are scored of every run, whatever its settings and number of jobs.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from cotenant_api import errors
from cotenant_predictor.colocation import prior, profiles
from cotenant_predictor.colocation.speeds import SpeedModel
from cotenant_predictor.datasets.joint import Joint
from cotenant_predictor.evaluation import metrics, partners, report, splits
from cotenant_predictor.evaluation.partners import Pairs
from cotenant_predictor.evaluation.report import Row
from cotenant_predictor.training import colocation as training
from cotenant_predictor.trees import Array

PARTNER: Final = "partner"
SPEED: Final = "normalizedSpeed"
CONSTANT: Final = "constant"
PHYSICS: Final = "physics"
COTENANT: Final = "cotenant"
SHUFFLES: Final = 5
PARTS: Final = 5
MAX_FOLDS: Final = 14
"""With more labels than this, several are held out at a time."""

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """Runs of one mechanism on one GPU model, and those of the other GPU models."""

    mechanism: str
    gpu_model: str
    joint: Joint
    elsewhere: Joint
    pairs: Pairs

    @property
    def name(self) -> str:
        """As rows of this bench alone are named."""
        return f"{self.gpu_model}, {self.mechanism}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fold:
    """Runs to learn from and runs to predict."""

    shuffle: int
    train: Joint
    runs: Array
    """Positions of the runs to predict."""
    judged: frozenset[str] | None
    """Labels of the tenants to judge; all where there are none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores:
    """What one bench gives."""

    bench: Bench
    share: dict[str, Array]
    """Share of the oracle of every target, by model, shape (n_jobs,); NaN where the target has no candidate."""
    measured: Array
    """Speeds, shape (n_rows,)."""
    groups: Array
    predicted: dict[str, Array]
    lower: Array


def rows(joint: Joint, *, split: str, shuffles: int = SHUFFLES, progress: Progress = lambda _: None) -> list[Row]:
    """Return the scores of every model on one split, over all GPU models and mechanisms and, of several, for each.

    Args:
        joint: runs of jobs together.
        split: one of `splits.KINDS`.
        shuffles: how often `random` shuffles.
        progress: told what is being done.

    Raises:
        InvalidInputError: no speed was measured, or the split can be made of the runs of no GPU model and mechanism.
    """
    usable = splittable(joint, split, progress=progress)
    found = [scored(bench, split=split, shuffles=shuffles, progress=progress) for bench in usable]
    whole = _rows_of(found, split, group=None)
    each = [row for one in found for row in _rows_of([one], split, group=one.bench.name)] if len(found) > 1 else []
    return [dataclasses.replace(row, simulated=joint.simulated) for row in (*whole, *each)]


def benches(joint: Joint) -> Iterator[Bench]:
    """Mechanisms and GPU models with runs in which a speed was measured."""
    for mechanism in joint.mechanisms:
        ran = joint.of_mechanism(mechanism)
        models = [joint.jobs[run.tenants[0].job].gpu_model for run in ran.runs]
        for gpu_model in sorted(set(models)):
            here = np.array([model == gpu_model for model in models])
            on_it, elsewhere = ran.take(np.flatnonzero(here)), ran.take(np.flatnonzero(~here))
            if np.isfinite(on_it.speeds()).any():
                pairs = partners.pairs_of(on_it)
                yield Bench(mechanism=mechanism, gpu_model=gpu_model, joint=on_it, elsewhere=elsewhere, pairs=pairs)


def splittable(joint: Joint, split: str, *, progress: Progress = lambda _: None) -> list[Bench]:
    """Return the benches that can be split this way; `progress` is told why others cannot.

    Raises:
        InvalidInputError: there is none.
    """
    found: list[Bench] = []
    refused = errors.InvalidInputError("DATA", len(joint.runs), "holds no speed of jobs that ran together")
    for bench in benches(joint):
        try:
            next(folds(bench, split, shuffles=1))
        except errors.InvalidInputError as error:
            progress(f"{bench.name}: no {split}: {error}")
            refused = error
        else:
            found.append(bench)
    if not found:
        raise refused
    return found


def scored(bench: Bench, *, split: str, shuffles: int = SHUFFLES, progress: Progress = lambda _: None) -> Scores:
    """Every model on every held-out run of one bench.

    Raises:
        InvalidInputError: the split cannot be made of these runs.
    """
    many = np.isfinite(bench.joint.speeds()).sum() >= splits.MANY_ROWS
    held = list(folds(bench, split, shuffles=min(shuffles, splits.REPEATS_OF_MANY) if many else shuffles))
    tally = _Tally(bench, split, shuffles=1 + max(fold.shuffle for fold in held))
    for number, fold in enumerate(held, 1):
        progress(f"{bench.name}, {split}: {number} of {len(held)}")
        model = training.learn(fold.train, [bench.mechanism])
        tally.add_pairs(fold, model)
        if fold.shuffle == 0:
            tally.add_speeds(fold, model)
    return tally.scores()


class _Tally:
    """What models say of what was held out, filled fold by fold."""

    def __init__(self, bench: Bench, split: str, *, shuffles: int) -> None:
        self._bench, self._split = bench, split
        count = len(bench.pairs.groups)
        learned = (CONSTANT, PHYSICS, partners.KACE, partners.FOREST, COTENANT)
        self._wanted = {name: np.full((shuffles, count, count), np.nan) for name in learned}
        self._measured, self._tenants = bench.joint.speeds(), bench.joint.tenants()
        self._said = {name: np.full(self._measured.shape, np.nan) for name in (CONSTANT, PHYSICS, COTENANT)}
        self._lower = np.full(self._measured.shape, np.nan)

    def add_pairs(self, fold: Fold, model: SpeedModel) -> None:
        """Add the sums that the models predict for the held-out pairs, at (target, partner)."""
        bench, mechanism = self._bench, self._bench.mechanism
        asked, known = bench.pairs.at(held_pairs(bench, fold)), partners.pairs_of(fold.train)
        sums = {
            CONSTANT: np.zeros(len(asked.members)),
            PHYSICS: prior.speeds(asked.tenants(), mechanism).sum(axis=1),
            COTENANT: model.predict(asked.tenants(), mechanism).total,
        }
        if len(known.members) > 1:
            sums |= {name: partners.published(name, known, asked) for name in (partners.KACE, partners.FOREST)}
        for name, values in sums.items():
            for pair, value in zip(asked.members, values, strict=True):
                for target, partner in (pair, pair[::-1]):
                    if fold.judged is None or self._label(target) in fold.judged:
                        self._wanted[name][fold.shuffle, target, partner] = value

    def add_speeds(self, fold: Fold, model: SpeedModel) -> None:
        """Speeds that the models predict for the held-out runs, at (run, tenant)."""
        tenants = self._tenants[fold.runs]
        predicted = model.predict(tenants, self._bench.mechanism)
        judged = profiles.present(tenants)
        if fold.judged is not None:
            labels = _padded(self._bench.joint.labels(label_of(self._split)), judged.shape[1])[fold.runs]
            judged &= np.isin(labels, sorted(fold.judged))
        constant = float(np.nanmean(fold.train.speeds())) if fold.train.runs else 1.0
        values = {
            CONSTANT: np.full(judged.shape, constant),
            PHYSICS: prior.speeds(tenants, self._bench.mechanism),
            COTENANT: predicted.speed,
        }
        for name, found in values.items():
            self._said[name][fold.runs] = np.where(judged, found, self._said[name][fold.runs])
        self._lower[fold.runs] = np.where(judged, predicted.lower, self._lower[fold.runs])

    def scores(self) -> Scores:
        """Of everything that was added."""
        bench = self._bench
        share = partners.fixed(bench.pairs)
        for name, matrices in self._wanted.items():
            share[name] = np.mean([partners.scores(bench.pairs, matrix) for matrix in matrices], axis=0)
        judged = np.isfinite(self._measured) & np.isfinite(self._said[COTENANT])
        return Scores(
            bench=bench,
            share=share,
            measured=self._measured[judged],
            groups=_padded(bench.joint.labels("group"), judged.shape[1])[judged],
            predicted={name: values[judged] for name, values in self._said.items()},
            lower=self._lower[judged],
        )

    def _label(self, target: int) -> str:
        return str(getattr(self._bench.joint.jobs[self._bench.pairs.jobs[target]], label_of(self._split)))


def folds(bench: Bench, split: str, *, shuffles: int) -> Iterator[Fold]:
    """Yield what is held out, one part after another; repeats of a run together.

    Raises:
        InvalidInputError: the split cannot be made of these runs.
    """
    joint = bench.joint
    if split == splits.RANDOM:
        units = _units(joint)
        for shuffle in range(shuffles):
            for fold in splits.k_fold(int(units.max()) + 1, folds=PARTS, seed=shuffle):
                held = np.isin(units, fold.test)
                train = joint.take(np.flatnonzero(~held))
                yield Fold(shuffle=shuffle, train=train, runs=np.flatnonzero(held), judged=None)
    elif split == splits.LEAVE_GPU_OUT:
        if not bench.elsewhere.runs:
            raise errors.InvalidInputError("split", split, "needs runs of the same mechanism on another GPU model")
        yield Fold(shuffle=0, train=bench.elsewhere, runs=np.arange(len(joint.runs)), judged=None)
    else:
        yield from _label_folds(joint, split)


def held_pairs(bench: Bench, fold: Fold) -> Array:
    """Positions in `bench.pairs` of the pairs to predict; a pair that was held out under other settings is not one."""
    runs = [bench.joint.runs[run] for run in fold.runs]
    held = {tuple(sorted(tenant.job for tenant in run.tenants)) for run in runs if partners.is_plain_pair(run)}
    jobs = bench.pairs.jobs
    return np.flatnonzero([(jobs[first], jobs[second]) in held for first, second in bench.pairs.members])


def _label_folds(joint: Joint, split: str) -> Iterator[Fold]:
    labels = joint.labels(label_of(split))
    names = sorted({name for members in labels for name in members})
    if len(names) < 2:
        raise errors.InvalidInputError("split", split, "needs runs of at least 2 labels, so that one can be held out")
    for part in range(min(MAX_FOLDS, len(names))):
        held = frozenset(names[part::MAX_FOLDS])
        has = np.array([not held.isdisjoint(members) for members in labels])
        yield Fold(shuffle=0, train=joint.take(np.flatnonzero(~has)), runs=np.flatnonzero(has), judged=held)


def label_of(split: str) -> str:
    """Which attribute of a job a split holds out.

    Raises:
        InvalidInputError: the split holds out no label.
    """
    known = {splits.LEAVE_GROUP_OUT: "group", splits.LEAVE_FAMILY_OUT: "family"}
    if split not in known:
        raise errors.InvalidInputError("split", split, f"must be one of {', '.join(splits.KINDS)}")
    return known[split]


def _units(joint: Joint) -> Array:
    """Which runs are repeats of the same: a number each, shape (n_runs,)."""
    numbers: dict[tuple[object, ...], int] = {}
    found = []
    for run in joint.runs:
        key = tuple(sorted((tenant.job, tenant.threads, tenant.priority) for tenant in run.tenants))
        found.append(numbers.setdefault(key, len(numbers)))
    return np.array(found, dtype=np.intp)


def _padded(labels: Sequence[tuple[str, ...]], width: int) -> Array:
    return np.array([members + ("",) * (width - len(members)) for members in labels])


def _rows_of(found: Sequence[Scores], split: str, *, group: str | None) -> list[Row]:
    return [*_partner_rows(found, split, group=group), *_speed_rows(found, split, group=group)]


def _partner_rows(found: Sequence[Scores], split: str, *, group: str | None) -> list[Row]:
    groups = np.array([name for one in found for name in one.bench.pairs.groups])
    share = {name: np.concatenate([one.share[name] for one in found]) for name in found[0].share}
    share = {name: values for name, values in share.items() if np.isfinite(values).any()}
    names = list(share)
    # A target counts where every model has a say: too few pairs may be left to learn a regression from.
    usable = np.isfinite(list(share.values())).all(axis=0) & (COTENANT in share)
    if not usable.any():
        return []
    groups = groups[usable]
    share = {name: values[usable] for name, values in share.items()}
    rivals = np.nanmax([share[name] for name in names if name != partners.ORACLE], axis=0)
    rows_found = []
    for name in names:

        def row(metric: str, name: str = name) -> Row:
            return Row(target=PARTNER, split=split, model=name, metric=metric, value=0.0, n=len(groups), group=group)

        rows_found.append(report.scored(row("shareOfOracle"), metrics.mean, [share[name]], list(groups)))
        won = (share[name] >= rivals - 1e-9).astype(np.float64)
        rows_found.append(report.scored(row("wins"), metrics.mean, [won], list(groups)))
        arrays = [share[name], share[partners.RANDOM]]
        rows_found.append(report.scored(row("gapClosed"), _gap_closed, arrays, list(groups)))
    return rows_found


def _speed_rows(found: Sequence[Scores], split: str, *, group: str | None) -> list[Row]:
    measured = np.concatenate([one.measured for one in found])
    groups = list(np.concatenate([one.groups for one in found]))
    if not len(measured):
        return []
    rows_found = []
    for name in (CONSTANT, PHYSICS, COTENANT):
        predicted = np.concatenate([one.predicted[name] for one in found])
        for metric, statistic in (("mae", metrics.mae), ("rmse", metrics.rmse)):
            row = Row(target=SPEED, split=split, model=name, metric=metric, value=0.0, n=len(groups), group=group)
            rows_found.append(report.scored(row, statistic, [measured, predicted], groups))
    lower = np.concatenate([one.lower for one in found])
    if np.isfinite(lower).all():
        row = Row(target=SPEED, split=split, model=COTENANT, metric="coverage", value=0.0, n=len(groups), group=group)
        rows_found.append(report.scored(row, _held, [measured, lower], groups))
        of_group = {name: np.array(groups) == name for name in sorted(set(groups))}
        held = {name: _held(measured[here], lower[here]) for name, here in of_group.items()}
        worst = min(held, key=held.__getitem__)
        rows_found.append(dataclasses.replace(row, metric="worstGroupCoverage", value=held[worst], worst=worst))
    return rows_found


def _gap_closed(share: Array, chance: Array) -> float:
    left = 1.0 - float(np.mean(chance))
    return (float(np.mean(share)) - float(np.mean(chance))) / left if left > 0 else float("nan")


def _held(measured: Array, lower: Array) -> float:
    return float(np.mean(measured >= lower))
