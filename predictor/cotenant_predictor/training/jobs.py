"""Learns how measured jobs differ from the formula: a correction that is trusted as far as held-out groups allow.

The formula and its use are in `cotenant_predictor.jobs.residual`; this fits it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import lsq_linear
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils.validation import check_is_fitted, validate_data

from cotenant_predictor.jobs import residual as residuals
from cotenant_predictor.jobs.residual import Residual
from cotenant_predictor.training import choice, conformal, trees
from cotenant_predictor.trees import Array, Trees

_Fold: TypeAlias = tuple[Array, Array]

MIN_ROWS_TO_BOOST = 1000
"""From here on boosted trees are better than averaged ones, and quick."""
_MIN_GROUPS = 3
_MAX_FOLDS = 10
_MAX_FOLDS_OF_MANY = 3
"""From `MIN_ROWS_TO_BOOST` rows on: held-out rows are then plenty, and a fit takes seconds."""
_HELD_OUT_TREES = 0.25
"""Share of the trees with which rows are held out: enough to choose the trust, and four times as quick."""
_MAX_REFERENCE_ROWS = 1024
_CHUNK_ROWS = 512


class JobRegressor(RegressorMixin, BaseEstimator):
    """Corrects the formula's value of one target by what was measured.

    Works on z = log(1 + target). A *prior* (the formula; shifted; on a line; or a constant) is chosen by leaving whole
    groups out. Trees learn what it misses, and are trusted by the share that reduces the squared error on
    held-out rows: one share for rows whose like was measured (rows held out at random), another for rows of unmeasured
    groups. Bounds are group-conformal, of both kinds.

    Parameters
    ----------
    physics_column : int, default=0
        The column of X that holds log(1 + the formula's value).
    level : float, default=0.9
        The share of rows, with groups weighing the same, that the upper bound should cover.
    n_estimators : int, default=200
        Trees of the forest.
    random_state : int, default=0
        Seed of trees and folds.

    Attributes
    ----------
    model_ : Residual
        What was learned, for use with numpy alone.
    prior_ : str
        Which prior was chosen.
    n_features_in_ : int
        Columns of X.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.log1p(np.arange(1.0, 41.0))[:, None]
    >>> y = 2 * np.expm1(X[:, 0])
    >>> model = JobRegressor().fit(X, y, groups=np.arange(40) % 8)
    >>> bool(model.upper([[3.0]])[0] >= model.predict([[3.0]])[0])
    True
    """

    def __init__(
        self, *, physics_column: int = 0, level: float = 0.9, n_estimators: int = 200, random_state: int = 0
    ) -> None:
        self.physics_column = physics_column
        self.level = level
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> "JobRegressor":  # noqa: N803  scikit-learn's name
        """Learn from measured rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Features, as of `jobs.features.rows_of`.
        y : array-like of shape (n_rows,)
            What was measured, at least 0.
        groups : array-like of shape (n_rows,), default=None
            What belongs together (an architecture); every row for itself where it is not given.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)  # noqa: N806
        if (y < 0).any():
            raise ValueError("y holds a negative value: what is measured here is at least 0")
        if not 0 < self.level < 1:
            raise ValueError(f"level is {self.level}: must lie between 0 and 1")
        members = np.arange(len(y)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        data = _Data(rows=X, target=np.log1p(y), physics=X[:, self.physics_column], members=members)
        self.prior_, prior = _best_prior(data, seed=self.random_state)
        self.model_ = self._corrected(data, prior)
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Medians, shape (n_rows,)."""
        rows = self._checked(X)
        return self.model_.median(rows)

    def upper(self, X: Any) -> Array:  # noqa: N803
        """Upper bounds, shape (n_rows,)."""
        rows = self._checked(X)
        return self.model_.upper(rows)

    def is_outside(self, X: Any) -> Array:  # noqa: N803
        """Return whether rows are too strange to be judged, shape (n_rows,)."""
        rows = self._checked(X)
        return self.model_.is_outside(self.model_.distance(rows))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # a column of the checks' data is no estimate of their target
        return tags

    def _checked(self, X: Any) -> Array:  # noqa: N803
        check_is_fitted(self)
        checked: Array = validate_data(self, X, dtype=np.float64, reset=False)
        return checked

    def _corrected(self, data: "_Data", prior: "_Line") -> Residual:
        seed = self.random_state
        fewer = max(1, round(_HELD_OUT_TREES * self.n_estimators))

        def learn(rows: Array, values: Array) -> Any:
            return _fitted(rows, values, n_estimators=fewer, seed=seed)

        space = _Space.of(data)
        alike = _held_out(data, prior, learn, folds=_random_folds(data, seed), space=space)
        strange = _held_out(data, prior, learn, folds=_group_folds(data, seed), space=space)
        trust = _trust([alike, strange], data.weights())
        learned = None
        if any(trust):
            missed = data.target - prior.of(data)
            learned = _exported(_fitted(data.rows, missed, n_estimators=self.n_estimators, seed=seed))
        return Residual(
            physics_column=self.physics_column,
            slope=prior.slope,
            offset=prior.offset,
            trees=learned,
            trust_near=trust[0],
            trust_far=trust[1],
            width_near=conformal.width(alike.missed(trust), data.members, level=self.level),
            width_far=conformal.width(strange.missed(trust), data.members, level=self.level),
            **space.values(),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Data:
    rows: Array
    target: Array
    physics: Array
    members: Array

    def weights(self) -> Array:
        """Return weights by which groups weigh the same, however many rows they have."""
        counts = np.bincount(self.members)
        weights: Array = 1.0 / counts[self.members]
        return weights

    def of(self, chosen: Array) -> "_Data":
        return _Data(
            rows=self.rows[chosen],
            target=self.target[chosen],
            physics=self.physics[chosen],
            members=self.members[chosen],
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Line:
    slope: float
    offset: float

    def of(self, data: _Data) -> Array:
        return self.slope * data.physics + self.offset


@dataclasses.dataclass(frozen=True, kw_only=True)
class _HeldOut:
    """Of every row while it was held out: what the prior missed, what trees said of that, how near the others were."""

    residual: Array
    said: Array
    nearness: Array

    def missed(self, trust: tuple[float, float]) -> Array:
        missed: Array = self.residual - (trust[1] + (trust[0] - trust[1]) * self.nearness) * self.said
        return missed


def _physics(_: _Data) -> _Line:
    return _Line(slope=1.0, offset=0.0)


def _shifted(data: _Data) -> _Line:
    return _Line(slope=1.0, offset=float(np.average(data.target - data.physics, weights=data.weights())))


def _on_a_line(data: _Data) -> _Line:
    weights = data.weights()
    mean_p, mean_z = np.average(data.physics, weights=weights), np.average(data.target, weights=weights)
    spread = np.average((data.physics - mean_p) ** 2, weights=weights)
    together = np.average((data.physics - mean_p) * (data.target - mean_z), weights=weights)
    slope = float(np.clip(together / spread, 0.0, 1.5)) if spread > 0 else 0.0
    return _Line(slope=slope, offset=float(mean_z - slope * mean_p))


def _constant(data: _Data) -> _Line:
    return _Line(slope=0.0, offset=float(np.average(data.target, weights=data.weights())))


_PRIORS: dict[str, Callable[[_Data], _Line]] = {
    "physics": _physics,
    "shifted": _shifted,
    "line": _on_a_line,
    "constant": _constant,
}
"""From the least freedom to the most that is wrong."""


def _best_prior(data: _Data, *, seed: int) -> tuple[str, _Line]:
    """Return the prior with the smallest error on groups it did not see.

    A simpler one unless another is clearly better.
    """
    folds = list(_group_folds(data, seed))
    found = {}
    for name, fit in _PRIORS.items():
        squares = np.zeros_like(data.target)
        for known, held in folds:
            squares[held] = (data.target[held] - fit(data.of(known)).of(data.of(held))) ** 2
        found[name] = float(np.average(squares, weights=data.weights()))
    best = choice.simplest(found)
    return best, _PRIORS[best](data)


def _held_out(
    data: _Data, prior: _Line, learn: Callable[[Array, Array], Any], *, folds: Iterable[_Fold], space: "_Space"
) -> _HeldOut:
    said, distance = np.zeros_like(data.target), np.zeros_like(data.target)
    residual = data.target - prior.of(data)
    whole = space.of_rows(data.rows)
    for known, held in folds:
        said[held] = learn(data.rows[known], residual[known]).predict(data.rows[held])
        stored = np.intersect1d(known, space.kept)
        distance[held] = residuals.nearest(whole[held], whole[stored if len(stored) else known])
    nearness = residuals.nearness(distance, near=space.near, far=space.far)
    return _HeldOut(residual=residual, said=said, nearness=nearness)


def _trust(held_out: Iterable[_HeldOut], weights: Array) -> tuple[float, float]:
    """Return the shares, near and far, of what trees say that leave the least squared error; between 0 and 1.

    Least squares over both kinds of held-out rows: residual = (near x n + far x (1 - n)) x said.
    """
    matrix, target = [], []
    for rows in held_out:
        root = np.sqrt(weights)
        matrix.append(root[:, None] * np.column_stack([rows.nearness * rows.said, (1 - rows.nearness) * rows.said]))
        target.append(root * rows.residual)
    found = lsq_linear(np.concatenate(matrix), np.concatenate(target), bounds=(0.0, 1.0))
    near, far = (round(float(share), 6) for share in found.x)
    return near, far


def _random_folds(data: _Data, seed: int) -> Iterator[_Fold]:
    splits = min(_max_folds(data), len(data.target))
    yield from KFold(splits, shuffle=True, random_state=seed).split(data.rows)


def _group_folds(data: _Data, seed: int) -> Iterator[_Fold]:
    """Whole groups held out; rows at random where there are too few groups to leave one out."""
    groups = len(np.unique(data.members))
    if groups < _MIN_GROUPS:
        yield from _random_folds(data, seed)
        return
    folds = GroupKFold(min(2 * _max_folds(data), groups), shuffle=True, random_state=seed)
    yield from folds.split(data.rows, groups=data.members)


def _max_folds(data: _Data) -> int:
    return _MAX_FOLDS if len(data.target) < MIN_ROWS_TO_BOOST else _MAX_FOLDS_OF_MANY


def _fitted(rows: Array, values: Array, *, n_estimators: int, seed: int) -> Any:
    if len(values) >= MIN_ROWS_TO_BOOST:
        boosting = HistGradientBoostingRegressor(
            max_iter=300, learning_rate=0.06, max_leaf_nodes=24, min_samples_leaf=10, random_state=seed
        )
        return boosting.fit(rows, values)
    forest = ExtraTreesRegressor(n_estimators, min_samples_leaf=1, max_features=0.5, random_state=seed)
    return forest.fit(rows, values)


def _exported(fitted: Any) -> Trees:
    return trees.of_boosting(fitted) if hasattr(fitted, "_predictors") else trees.of_forest(fitted)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Space:
    """Where measured rows lie; all fields but `kept` are those of `Residual`."""

    center: Array
    scale: Array
    reference: Array
    near: float
    far: float
    outside: float
    kept: Array
    """Positions of the rows that `reference` holds; distances are to these alone."""

    @classmethod
    def of(cls, data: _Data) -> "_Space":
        center = trees.rounded(np.median(data.rows, axis=0))
        spread = np.std(data.rows, axis=0)
        scale = choice.scale_of(spread, center)
        whole = (data.rows - center) / scale
        kept = _spread_out(whole, _MAX_REFERENCE_ROWS)
        alike, strange = _neighbour_distances(whole, data.members, kept)
        near, far = float(np.median(alike)), float(np.median(strange))
        limit = max(float(np.quantile(strange, 0.95)), far)
        reference = trees.rounded(whole[kept])
        return cls(center=center, scale=scale, reference=reference, near=near, far=far, outside=limit, kept=kept)

    def of_rows(self, rows: Array) -> Array:
        return (rows - self.center) / self.scale

    def values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "kept"}


def _neighbour_distances(whole: Array, members: Array, kept: Array) -> tuple[Array, Array]:
    """Of every row to the nearest other kept row, and to the nearest kept row of another group; shapes (n_rows,)."""
    squares = (whole**2).sum(axis=1)
    alike, strange = np.empty(len(whole)), np.empty(len(whole))
    for start in range(0, len(whole), _CHUNK_ROWS):
        part = np.arange(start, min(start + _CHUNK_ROWS, len(whole)))
        between = np.maximum(squares[part, None] + squares[kept] - 2 * whole[part] @ whole[kept].T, 0.0)
        between[part[:, None] == kept] = np.inf
        alike[part] = between.min(axis=1)
        between[members[part, None] == members[kept]] = np.inf
        strange[part] = between.min(axis=1)
    strange = np.where(np.isfinite(strange), strange, alike)
    return np.sqrt(alike / whole.shape[1]), np.sqrt(strange / whole.shape[1])


def _spread_out(whole: Array, count: int) -> Array:
    """Positions of at most `count` rows that lie as far apart as can be had greedily (Gonzalez 1985)."""
    if len(whole) <= count:
        return np.arange(len(whole))
    chosen, distance = [0], np.full(len(whole), np.inf)
    for _ in range(count - 1):
        distance = np.minimum(distance, ((whole - whole[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(np.argmax(distance)))
    return np.array(chosen)
