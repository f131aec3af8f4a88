"""Learns the times of kernels from a benchmark: the physics by direct search, then what its shapes have in common.

The formulas are in `cotenant_predictor.kernels`. Every GPU weighs the same, however often it was measured.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from cotenant_predictor.kernels import convolutions, model, products
from cotenant_predictor.kernels.chips import Chips
from cotenant_predictor.kernels.convolutions import Convolutions
from cotenant_predictor.kernels.model import Anchors, Family, KernelModel
from cotenant_predictor.kernels.products import Products
from cotenant_predictor.training import trees

Array: TypeAlias = npt.NDArray[Any]

CHIP_COLUMNS: Final = tuple(field.name for field in dataclasses.fields(Chips))
SHAPE_COLUMNS: Final = {
    model.LINEAR: ("batch", "rows", "reduction", "columns"),
    model.BMM: ("batch", "rows", "reduction", "columns"),
    model.CONV: ("batch", "channels", "filters", "height", "width", "taps", "has_winograd"),
}
TRUSTS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)

_SEARCH_ROWS: Final = 400
_PRIOR: Final = 0.03
"""Error that a physical value may cost when it differs from where the search begins by a factor of e."""
_FREEDOM: Final = np.log(4.0)
_SHARES: Final = {"efficiency": 1.1, "legacy_efficiency": 1.1, "memory_efficiency": 0.95, "transform_share": 1.0}
"""What a share cannot exceed; clocks run up to a tenth above the maker's figure."""
_SMALLEST: Final = 1e-9
_LEAST_KERNEL_SHARE: Final = 0.2
_MOST_HELD_OUT: Final = 8
_WORTH: Final = 0.97
"""Trees that leave more than this share of the error are not worth their time."""
_LONG_SHARE: Final = 0.9
"""Of a kernel long enough for launches not to matter."""
_USUAL_SIZE: Final = 8192.0
"""Largest rows, columns or reduction of a usual layer; the benchmark goes far beyond, where GPUs differ more."""


class KernelLatencyRegressor(RegressorMixin, BaseEstimator):
    """Seconds of fp32 kernels as a benchmark measures them, one family at a time, on any GPU with a data sheet.

    The physics' values minimise the mean relative error, GPUs weighing the same. Boosted trees then learn what it
    misses by shape alone, relative to each GPU's median, and are trusted as far as GPUs held out in turn allow; they
    are left out where they hardly help.

    Parameters
    ----------
    family : {"linear", "bmm", "conv"}, default="linear"
        Family of the kernels.
    rows_per_chip : int, default=3000
        Rows of each GPU for the trees; the search takes at most 400 of them.
    max_sweeps : int, default=6
        Sweeps of the search over all values.
    n_estimators : int, default=80
        Boosted trees.
    random_state : int, default=0
        Seed of the choice of rows.

    Attributes
    ----------
    model_ : Family
        What was learned, for use with numpy alone.
    n_features_in_ : int
        Columns of X.

    Notes
    -----
    Columns of X are `CHIP_COLUMNS`, then `SHAPE_COLUMNS[family]`; columns that are not there count as 1, further ones
    are ignored.
    """

    def __init__(
        self,
        *,
        family: str = model.LINEAR,
        rows_per_chip: int = 3000,
        max_sweeps: int = 6,
        n_estimators: int = 80,
        random_state: int = 0,
    ) -> None:
        self.family = family
        self.rows_per_chip = rows_per_chip
        self.max_sweeps = max_sweeps
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "KernelLatencyRegressor":  # noqa: N803  scikit-learn's name
        """Learn from measured rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            GPU and shape of each row.
        y : array-like of shape (n_rows,)
            Measured seconds, above 0.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)  # noqa: N806
        check_non_negative(X, "KernelLatencyRegressor.fit")
        if (y < 0).any():
            raise ValueError("y holds a negative value: a latency is above 0")
        if self.family not in model.FAMILIES:
            raise ValueError(f"family is {self.family!r}: must be one of {', '.join(model.FAMILIES)}")
        data = _Data(self.family, X, np.maximum(y, _SMALLEST))
        few = data.sample(min(_SEARCH_ROWS, self.rows_per_chip), seed=self.random_state)
        family = Family(physics=_fitted_physics(few, max_sweeps=self.max_sweeps))
        many = data.sample(self.rows_per_chip, seed=self.random_state + 1)
        trust = _trust(many, family, n_estimators=self.n_estimators)
        if trust:
            boosting = _boosting(many, family, n_estimators=self.n_estimators)
            family = dataclasses.replace(family, correction=trees.of_boosting(boosting), trust=trust)
        self.model_ = dataclasses.replace(family, anchors=_anchors(many, family))
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Seconds, shape (n_rows,)."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        shapes, chips = unpacked(self.family, rows)
        return self.model_.benchmark_seconds(shapes, chips)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # the checks' data are no GPUs
        return tags


def fitted(rows: Mapping[str, tuple[Array, Array]]) -> KernelModel:
    """Return the model of all families, from X and y of each."""
    return KernelModel(
        families={name: KernelLatencyRegressor(family=name).fit(*rows[name]).model_ for name in model.FAMILIES}
    )


def unpacked(family: str, rows: Array) -> tuple[Products | Convolutions, Chips]:
    """Shapes and chips of rows of X, arrays of shape (n_rows,)."""
    names = (*CHIP_COLUMNS, *SHAPE_COLUMNS[family])
    missing = np.ones((len(rows), max(0, len(names) - rows.shape[1])))
    columns = dict(zip(names, np.maximum(np.hstack([rows, missing])[:, : len(names)], 0.0).T, strict=True))
    flags = {name: columns.pop(name) > 0 for name in ("is_legacy", "has_winograd") if name in columns}
    safe = {name: np.maximum(column, _SMALLEST) for name, column in columns.items()} | flags
    chips = Chips(**{name: safe[name] for name in CHIP_COLUMNS})
    kind = Convolutions if family == model.CONV else Products
    return kind(**{name: safe[name] for name in SHAPE_COLUMNS[family]}), chips


class _Data:
    """Rows of one family, and to which GPU each belongs."""

    def __init__(self, family: str, rows: Array, seconds: Array) -> None:
        self.family, self.rows, self.seconds = family, rows, seconds
        self.shapes, self.chips = unpacked(family, rows)
        self.members = np.unique(rows[:, : len(CHIP_COLUMNS)], axis=0, return_inverse=True)[1].ravel()
        self.weights = 1.0 / np.bincount(self.members)[self.members] / (self.members.max() + 1)

    def sample(self, per_chip: int, *, seed: int) -> "_Data":
        """At most so many rows of each GPU."""
        order = np.random.default_rng(seed).permutation(len(self.rows))
        rank = np.empty(len(order), dtype=np.intp)
        for member in range(self.members.max() + 1):
            mine = order[self.members[order] == member]
            rank[mine] = np.arange(len(mine))
        return self.subset(rank < per_chip)

    def subset(self, keep: Array) -> "_Data":
        """Return the rows of a mask."""
        return _Data(self.family, self.rows[keep], self.seconds[keep])

    def error(self, seconds: Array) -> float:
        """Mean relative error, GPUs weighing the same."""
        return float(self.weights @ np.abs(seconds / self.seconds - 1.0))


def _fitted_physics(data: _Data, *, max_sweeps: int) -> products.Physics:
    """Powell's search over the logarithms of all values, from the defaults."""
    kind = convolutions.Physics if data.family == model.CONV else products.Physics
    defaults = dataclasses.asdict(kind())
    begin = np.log(list(defaults.values()))
    most = np.log([_SHARES.get(name, np.inf) for name in defaults])
    bounds = list(zip(begin - _FREEDOM, np.minimum(begin + _FREEDOM, most), strict=True))

    def physics_of(logarithms: Array) -> products.Physics:
        return kind(**dict(zip(defaults, trees.rounded(np.exp(logarithms)).tolist(), strict=True)))

    def objective(logarithms: Array) -> float:
        seconds = Family(physics=physics_of(logarithms)).benchmark_seconds(data.shapes, data.chips)
        return data.error(seconds) + _PRIOR * float(np.mean((logarithms - begin) ** 2))

    options = {"maxiter": max_sweeps, "xtol": 1e-2, "ftol": 1e-4}
    return physics_of(minimize(objective, begin, method="Powell", bounds=bounds, options=options).x)


def _missed(data: _Data, family: Family) -> tuple[Array, Array]:
    """log(measured / computed) of the kernels themselves, and which share of each time is not launch."""
    overhead = family.physics.overhead_seconds
    computed = family.benchmark_seconds(data.shapes, data.chips) - overhead
    measured = np.maximum(data.seconds - overhead, _LEAST_KERNEL_SHARE * data.seconds)
    return np.log(measured / np.maximum(computed, _SMALLEST**2)), computed / (computed + overhead)


def _anchors(data: _Data, family: Family) -> Anchors:
    """Return what each GPU's median leaves, of kernels longer than their launch and of a size that networks have."""
    missed, share = _missed(data, family)
    _, first = np.unique(data.members, return_index=True)
    usual = (share >= _LONG_SHARE) & (model.rows_of(data.shapes).max(axis=1) <= np.log(_USUAL_SIZE))
    sheets = trees.rounded(model.sheet_of(data.chips.take(first)))
    members = [data.members == member for member in range(len(first))]
    wanted = np.array([np.median(missed[mine & usual]) if (mine & usual).any() else 0.0 for mine in members])
    return Anchors(
        sheets=sheets, offsets=trees.rounded(np.clip(wanted, -model.LARGEST_CORRECTION, model.LARGEST_CORRECTION))
    )


def _boosting(data: _Data, family: Family, *, n_estimators: int) -> HistGradientBoostingRegressor:
    """Trees of log(measured / computed) by shape; rows count by the share that is not launch."""
    missed, share = _missed(data, family)
    for member in np.unique(data.members):
        mine = data.members == member
        missed[mine] -= np.median(missed[mine])
    boosting = HistGradientBoostingRegressor(
        loss="absolute_error",
        max_iter=n_estimators,
        learning_rate=0.15,
        max_leaf_nodes=31,
        min_samples_leaf=40,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
    return boosting.fit(model.rows_of(data.shapes), missed, sample_weight=data.weights * share)


def _trust(data: _Data, family: Family, *, n_estimators: int) -> float:
    """Return the share of the correction that errs least on GPUs held out in turn.

    None where there are fewer than three.
    """
    chips = np.unique(data.members)[:_MOST_HELD_OUT]
    if len(chips) < 3:
        return 0.0
    errors = np.zeros(len(TRUSTS))
    for member in chips:
        held = data.subset(data.members == member)
        boosting = _boosting(data.subset(data.members != member), family, n_estimators=n_estimators)
        corrected = dataclasses.replace(family, correction=trees.of_boosting(boosting))
        for index, trust in enumerate(TRUSTS):
            seconds = dataclasses.replace(corrected, trust=trust).benchmark_seconds(held.shapes, held.chips)
            errors[index] += held.error(seconds)
    return TRUSTS[int(errors.argmin())] if errors.min() < _WORTH * errors[0] else 0.0
