"""Corrections of a prior, each learned from comparable rows: nothing, ridge regression, a Gaussian process, trees.

What they mean is in `cotenant_predictor.colocation.learned`.
"""

import dataclasses
import itertools
from typing import Any, Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge

from cotenant_predictor.colocation import learned
from cotenant_predictor.colocation.learned import Correction, Line, Process
from cotenant_predictor.training import trees
from cotenant_predictor.trees import Array

MAX_PROCESS_ROWS: Final = 2000
"""Rows that a process remembers; of more, these are taken evenly."""
MAX_LIKELIHOOD_ROWS: Final = 700
"""Rows by which its parts and lengths are chosen."""
_NOISE: Final = 0.01
"""Variance of a repeat, as a share of what one part explains."""
_LENGTHS: Final = (0.5, 1.0, 2.0)
_PARTS: Final = ((1.0, 1.0, 0.3), (1.0, 1.0, 1.0), (1.0, 1.0, 3.0))
_RIDGE: Final = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """How a process divides a row, and its choice of parts and lengths."""

    n_own: int
    n_others: int
    parts: tuple[float, float, float] = _PARTS[1]
    lengths: tuple[float, float] = (1.0, 1.0)


def ridge(rows: Array, missed: Array) -> Correction:
    """A line through what the prior missed; rows of shape (n_rows, n_features), the rest of shape (n_rows,)."""
    fitted = Ridge(alpha=_RIDGE, fit_intercept=False).fit(rows, missed)
    return Line(weights=trees.rounded(fitted.coef_))


def forest(rows: Array, missed: Array, *, n_estimators: int, seed: int) -> Correction:
    """Averaged trees; shapes as of `ridge`."""
    fitted = ExtraTreesRegressor(n_estimators, min_samples_leaf=2, max_features=0.5, random_state=seed)
    return trees.of_forest(fitted.fit(rows, missed))


def process(rows: Array, missed: Array, shape: Shape) -> Correction:
    """A process that remembers the rows; shapes as of `ridge`."""
    kept = spaced(len(rows), MAX_PROCESS_ROWS)
    known = _Known.of(rows[kept], shape)
    covariance = known.covariance(shape)
    weights = cho_solve(cho_factor(covariance + _NOISE * np.eye(len(kept)), lower=True), missed[kept])
    return Process(
        n_own=shape.n_own,
        n_others=shape.n_others,
        own=known.own,
        others=known.others,
        pairs=known.pairs,
        weights=trees.rounded(weights),
        parts=np.array(shape.parts),
        lengths=np.array(shape.lengths),
    )


def most_likely(rows: Array, missed: Array, *, n_own: int, n_others: int) -> Shape:
    """Parts and lengths with the largest marginal likelihood, its scale being what fits best; shapes as of `ridge`."""
    kept = spaced(len(rows), MAX_LIKELIHOOD_ROWS)
    best, least = Shape(n_own=n_own, n_others=n_others), np.inf
    known = _Known.of(rows[kept], best)
    for parts, own, others in itertools.product(_PARTS, _LENGTHS, _LENGTHS):
        shape = Shape(n_own=n_own, n_others=n_others, parts=parts, lengths=(own, others))
        factor = cho_factor(known.covariance(shape) + _NOISE * np.eye(len(kept)), lower=True)
        square = float(missed[kept] @ cho_solve(factor, missed[kept]))
        unlikely = len(kept) / 2 * np.log(max(square, 1e-300)) + float(np.log(np.diag(factor[0])).sum())
        if unlikely < least:
            best, least = shape, unlikely
    return best


def spaced(count: int, most: int) -> Array:
    """At most `most` positions below `count`, evenly spaced."""
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).astype(np.intp))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Known:
    """Rows, divided into distinct jobs and distinct neighbours, with the distances among each."""

    own: Array
    others: Array
    pairs: Array
    own_distances: Array
    others_distances: Array

    @classmethod
    def of(cls, rows: Array, shape: Shape) -> "_Known":
        own, first = _distinct(rows[:, : shape.n_own])
        others, second = _distinct(rows[:, shape.n_own : shape.n_own + shape.n_others])
        pairs = np.column_stack([first, second])
        between = {"own_distances": learned.distances(own, own), "others_distances": learned.distances(others, others)}
        return cls(own=own, others=others, pairs=pairs, **between)

    def covariance(self, shape: Shape) -> Array:
        """Of all rows with one another, shape (n_rows, n_rows)."""
        first, second = self.pairs.T
        own = np.exp(-self.own_distances / shape.lengths[0])[np.ix_(first, first)]
        others = np.exp(-self.others_distances / shape.lengths[1])[np.ix_(second, second)]
        result: Array = shape.parts[0] * own + shape.parts[1] * others + shape.parts[2] * own * others + 1.0
        return result


def distinct(rows: Array) -> Array:
    """Rows as they are stored, each once."""
    return _distinct(rows)[0]


def _distinct(rows: Array) -> tuple[Array, Array]:
    stored: Any = trees.rounded(rows)
    found, inverse = np.unique(stored, axis=0, return_inverse=True)
    return found, inverse.ravel()
