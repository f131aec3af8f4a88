"""Learns how measured jobs together differ from the prior of shared resources, by leaving whole groups out.

The formulas and their use are in `cotenant_predictor.colocation`; this fits them.
"""

import dataclasses
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted, validate_data

from cotenant_predictor.colocation import learned, rows
from cotenant_predictor.colocation.learned import Correction
from cotenant_predictor.colocation.speeds import Pool, SpeedModel
from cotenant_predictor.datasets.joint import Joint
from cotenant_predictor.training import choice, conformal, corrections, trees
from cotenant_predictor.trees import Array

MAX_CHOICE_ROWS: Final = 1500
"""Rows by which the kind of correction is chosen and the bounds are measured."""
MIN_ROWS: Final = 20
"""Measured speeds of a mechanism below which nothing is learned of it."""
_FOLDS: Final = 5
_MIN_GROUPS: Final = 3
_MAX_GROUP_FOLDS: Final = 10
_CHOICE_TREES: Final = 20

NOTHING: Final = "nothing"
RIDGE: Final = "ridge"
PROCESS: Final = "process"
FOREST: Final = "forest"
KINDS: Final = (NOTHING, RIDGE, PROCESS, FOREST)
"""From the least freedom to the most."""

_Fold: TypeAlias = tuple[Array, Array]


class SpeedRegressor(RegressorMixin, BaseEstimator):
    """Corrects the prior speed of jobs together by what was measured.

    The prior is put on a line, then corrected by the kind that misses held-out rows least: nothing, ridge regression,
    a Gaussian process over (job, neighbours), or extremely randomised trees. Rows are held out at random and by whole
    groups, so that both a new pair of known jobs and a job never seen count. The lower bound is conformal over rows for
    the former and over groups for the latter, and lies between the two by how near a row is to what was measured.

    Parameters
    ----------
    columns : tuple of two int, default=None
        How many of the first columns are the job's, and how many of those that follow its neighbours'; half of all
        columns and the rest where it is not given.
    prior_column : int, default=None
        The column that holds the prior; none: the prior is a constant.
    level : float, default=0.9
        The share of rows, with groups weighing the same, that the lower bound should cover.
    n_estimators : int, default=60
        Trees.
    random_state : int, default=0
        Seed of trees and folds.

    Attributes
    ----------
    pool_ : Pool
        What was learned, for use with numpy alone.
    kind_ : str
        Which correction was chosen.
    errors_ : dict of str to float
        The root mean squared error of each kind on rows held out at random and by group, their geometric mean.
    n_features_in_ : int
        Columns of X.

    Examples
    --------
    >>> import numpy as np
    >>> own, other = np.tile([0.2, 0.5, 0.8], 8), np.repeat(np.linspace(0.1, 0.9, 8), 3)
    >>> X = np.column_stack([own, other])
    >>> y = np.minimum(1.0, 1.3 - 0.5 * (own + other))
    >>> model = SpeedRegressor().fit(X, y)
    >>> bool((model.lower(X) <= model.predict(X)).all())
    True
    """

    def __init__(
        self,
        *,
        columns: tuple[int, int] | None = None,
        prior_column: int | None = None,
        level: float = 0.9,
        n_estimators: int = 60,
        random_state: int = 0,
    ) -> None:
        self.columns = columns
        self.prior_column = prior_column
        self.level = level
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> "SpeedRegressor":  # noqa: N803  scikit-learn's name
        """Learn from measured rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows as of `colocation.rows.of`; unknown values may be NaN.
        y : array-like of shape (n_rows,)
            Measured speed beside the neighbours, of the speed alone.
        groups : array-like of shape (n_rows, n_labels) or (n_rows,), default=None
            The groups of a row's job (first) and of its neighbours; every row for itself where it is not given.
        """
        options: dict[str, Any] = {"dtype": np.float64, "y_numeric": True, "ensure_min_samples": 2}
        X, y = validate_data(self, X, y, ensure_all_finite="allow-nan", **options)  # noqa: N806
        if not 0 < self.level < 1:
            raise ValueError(f"level is {self.level}: must lie between 0 and 1")
        half = max(1, X.shape[1] // 2)
        n_own, n_others = (half, X.shape[1] - half) if self.columns is None else self.columns
        data = _Data.of(X, np.asarray(y, dtype=np.float64), groups=groups, prior_column=self.prior_column)
        slope, offset = data.line()
        learner = _Learner(n_own=n_own, n_others=n_others, n_estimators=self.n_estimators, seed=self.random_state)
        trial = _Trial.of(data.at(corrections.spaced(len(y), MAX_CHOICE_ROWS)), learner)
        self.errors_ = trial.errors()
        self.kind_ = choice.simplest(self.errors_)
        correction = learner.learn(self.kind_, data.rows, data.missed((slope, offset)))
        near, far = trial.widths(self.kind_, level=self.level)
        self.pool_ = Pool(
            prior_column=self.prior_column,
            slope=slope,
            offset=offset,
            correction=correction,
            center=data.center,
            scale=data.scale,
            width_near=near,
            width_far=far,
            max_tenants=2,
            **_reach(data, learner),
        )
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Speeds, shape (n_rows,)."""
        found = self._checked(X)
        return self.pool_.speed(self.pool_.comparable(found), found)

    def lower(self, X: Any) -> Array:  # noqa: N803
        """Lower bounds, shape (n_rows,)."""
        found = self._checked(X)
        comparable = self.pool_.comparable(found)
        result: Array = self.pool_.speed(comparable, found) - self.pool_.width(self.pool_.distance(comparable))
        return result

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _checked(self, X: Any) -> Array:  # noqa: N803
        check_is_fitted(self)
        checked: Array = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return checked


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Data:
    """Measured rows; arrays of shape (n_rows, ..)."""

    rows: Array
    """Comparable columns."""
    prior: Array
    speed: Array
    labels: Array
    """Shape (n_rows, n_labels): the job's own first."""
    center: Array
    scale: Array

    @classmethod
    def of(cls, rows: Array, speed: Array, *, groups: Any, prior_column: int | None) -> "_Data":
        known = np.isfinite(rows)
        count = np.maximum(1, known.sum(axis=0))
        center = np.where(known, rows, 0.0).sum(axis=0) / count
        spread = np.sqrt((np.where(known, rows - center, 0.0) ** 2).sum(axis=0) / count)
        scale, center = choice.scale_of(spread, center), trees.rounded(center)
        prior = np.zeros(len(rows)) if prior_column is None else np.nan_to_num(rows[:, prior_column])
        labels = np.arange(len(rows)) if groups is None else np.asarray(groups)
        positions = np.unique(labels, return_inverse=True)[1].reshape(len(rows), -1)
        whole = np.nan_to_num((rows - center) / scale)
        return cls(rows=whole, prior=prior, speed=speed, labels=positions, center=center, scale=scale)

    def at(self, chosen: Array) -> "_Data":
        parts = {name: getattr(self, name)[chosen] for name in ("rows", "prior", "speed", "labels")}
        return dataclasses.replace(self, **parts)

    def line(self) -> tuple[float, float]:
        """Slope and offset of the speed over the prior; no slope where the prior says nothing, or the opposite."""
        spread = float(np.var(self.prior))
        slope = float(np.cov(self.prior, self.speed, bias=True)[0, 1]) / spread if spread > 0 else 0.0
        slope = float(trees.rounded(np.clip(slope, 0.0, 1.0)))
        return slope, float(trees.rounded(np.mean(self.speed - slope * self.prior)))

    def missed(self, line: tuple[float, float]) -> Array:
        result: Array = self.speed - line[0] * self.prior - line[1]
        return result

    def random_folds(self, seed: int) -> Iterator[_Fold]:
        yield from KFold(min(_FOLDS, len(self.speed)), shuffle=True, random_state=seed).split(self.rows)

    def group_folds(self, seed: int) -> Iterator[_Fold]:
        """Rows of a held-out group's jobs, judged without any row in which the group has a part."""
        count = int(self.labels.max()) + 1
        folds = min(_MAX_GROUP_FOLDS, count)
        part = np.random.default_rng(seed).permutation(count) % folds
        parts = part[self.labels]
        found = [
            (np.flatnonzero((parts != fold).all(axis=1)), np.flatnonzero(parts[:, 0] == fold)) for fold in range(folds)
        ]
        if count < _MIN_GROUPS or any(len(known) < 2 for known, _ in found):
            yield from self.random_folds(seed)
        else:
            yield from found


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Learner:
    n_own: int
    n_others: int
    n_estimators: int
    seed: int

    def learn(self, kind: str, rows: Array, missed: Array) -> Correction | None:
        if kind == RIDGE:
            return corrections.ridge(rows, missed)
        if kind == PROCESS:
            return corrections.process(rows, missed, n_own=self.n_own, n_others=self.n_others)
        if kind == FOREST:
            return corrections.forest(rows, missed, n_estimators=self.n_estimators, seed=self.seed)
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Trial:
    """What each kind said of rows while they were held out, at random and by group; shapes (n_rows,)."""

    data: _Data
    near: Mapping[str, Array]
    far: Mapping[str, Array]

    @classmethod
    def of(cls, data: _Data, learner: _Learner) -> "_Trial":
        quick = dataclasses.replace(learner, n_estimators=min(_CHOICE_TREES, learner.n_estimators))
        near = _held_out(data, quick, data.random_folds(learner.seed))
        far = _held_out(data, quick, data.group_folds(learner.seed))
        return cls(data=data, near=near, far=far)

    def errors(self) -> dict[str, float]:
        """Root mean squares, as the geometric mean over both kinds of held-out rows: neither drowns the other."""

        def of(said: Array) -> float:
            return float(np.sqrt(np.mean((said - self.data.speed) ** 2)))

        return {kind: float(np.sqrt(of(self.near[kind]) * of(self.far[kind]))) for kind in KINDS}

    def widths(self, kind: str, *, level: float) -> tuple[float, float]:
        """Return how far the lower bound must lie below, for rows held out at random and by group."""
        missed = self.near[kind] - self.data.speed
        near = conformal.width(missed, np.arange(len(missed)), level=level)
        far = conformal.width(self.far[kind] - self.data.speed, self.data.labels[:, 0], level=level)
        return float(trees.rounded(near)), float(trees.rounded(max(near, far)))


def _held_out(data: _Data, learner: _Learner, folds: Iterator[_Fold]) -> dict[str, Array]:
    said = {kind: np.zeros_like(data.speed) for kind in KINDS}
    for known, held in folds:
        part = data.at(known)
        line = part.line()
        missed = part.missed(line)
        base = line[0] * data.prior[held] + line[1]
        for kind in KINDS:
            correction = learner.learn(kind, part.rows, missed)
            said[kind][held] = base if correction is None else base + correction.predict(data.rows[held])
    return said


def _reach(data: _Data, learner: _Learner) -> dict[str, Any]:
    """Return the distinct jobs and neighbours that were measured, and how far jobs of other groups lie.

    Fields of `Pool`.
    """
    strange = _strange(data.at(corrections.spaced(len(data.speed), MAX_CHOICE_ROWS)), learner.n_own)
    far = float(np.median(strange))
    return {
        "own": corrections.distinct(data.rows[:, : learner.n_own]),
        "others": corrections.distinct(data.rows[:, learner.n_own : learner.n_own + learner.n_others]),
        "near": 0.0,
        "far": float(trees.rounded(far)),
        "outside": float(trees.rounded(max(far, np.quantile(strange, 0.95)))),
    }


def _strange(data: _Data, n_own: int) -> Array:
    """Of every row's job to the nearest job of another group, shape (n_rows,)."""
    own = data.rows[:, :n_own]
    between = learned.distances(own, own)
    between[data.labels[:, :1] == data.labels[:, 0]] = np.inf
    nearest = between.min(axis=1)
    found: Array = np.where(np.isfinite(nearest), nearest, 0.0)
    return found


def learn(joint: Joint, mechanisms: Iterable[str] | None = None, *, n_estimators: int = 60) -> SpeedModel:
    """Return what runs that ran teach, a pool for each mechanism with at least `MIN_ROWS` measured speeds.

    Args:
        joint: runs of jobs together.
        mechanisms: those to learn; all where it is not given.
        n_estimators: trees of a forest.
    """
    pools: dict[str, Pool] = {}
    for mechanism in joint.mechanisms if mechanisms is None else mechanisms:
        table = table_of(joint.of_mechanism(mechanism), mechanism)
        if len(table.speed) < MIN_ROWS:
            continue
        regressor = SpeedRegressor(
            columns=(rows.N_OWN, rows.N_OTHERS), prior_column=rows.PRIOR, n_estimators=n_estimators
        )
        fitted = regressor.fit(table.rows, table.speed, groups=table.groups).pool_
        tenants = 1 + int(table.rows[:, rows.NEIGHBOURS].max())
        pools[mechanism] = dataclasses.replace(fitted, max_tenants=tenants)
    return SpeedModel(pools=types.MappingProxyType(pools))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Measured speeds beside neighbours; arrays of shape (n_rows, ..)."""

    rows: Array
    """Columns as `colocation.rows.NAMES`."""
    speed: Array
    groups: Array
    """Of the job, then of its neighbours in the order of their names, shape (n_rows, n_tenants)."""


def table_of(joint: Joint, mechanism: str) -> Table:
    """Return the tenants beside neighbours whose speed was measured; `joint` has runs of this mechanism alone."""
    if not joint.runs:
        return Table(rows=np.empty((0, len(rows.NAMES))), speed=np.empty(0), groups=np.empty((0, 1), dtype=str))
    speeds = joint.speeds()
    measured = np.isfinite(speeds) & (np.array([len(run.tenants) for run in joint.runs]) > 1)[:, None]
    found = rows.of(joint.tenants(), mechanism)
    groups = [_own_first(labels, place) for labels in joint.labels("group") for place in range(speeds.shape[1])]
    kept = measured.ravel()
    widest = max(len(labels) for labels in groups)
    padded = np.array([labels + labels[:1] * (widest - len(labels)) for labels in groups])
    return Table(rows=found[kept], speed=speeds.ravel()[kept], groups=padded[kept])


def _own_first(labels: tuple[str, ...], place: int) -> tuple[str, ...]:
    if place >= len(labels):
        return labels
    return (labels[place], *sorted(labels[:place] + labels[place + 1 :]))
