"""Corrections of a prior, each learned from comparable rows: nothing, ridge regression, a Gaussian process, trees.

What they mean is in `cotenant_predictor.colocation.learned`.
"""

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
LENGTHS: Final = (1.0, 1.0)
PARTS: Final = (1.0, 1.0, 1.0)
"""Of `learned.Process`: the setting that misses held-out groups least on the published K80 and P100 pairs, among
lengths 0.1 to 2 and a third part of 1 or 3. Pairs of known jobs are missed alike by all settings from 0.5 on."""
NOISE: Final = 0.01
"""Variance of a repeat, as a share of what one part explains."""
_RIDGE: Final = 10.0


def ridge(rows: Array, missed: Array) -> Correction:
    """Return a line through what the prior missed; rows of shape (n_rows, n_features), the rest of shape (n_rows,)."""
    fitted = Ridge(alpha=_RIDGE, fit_intercept=False).fit(rows, missed)
    return Line(weights=trees.rounded(fitted.coef_))


def forest(rows: Array, missed: Array, *, n_estimators: int, seed: int) -> Correction:
    """Averaged trees; shapes as of `ridge`."""
    fitted = ExtraTreesRegressor(n_estimators, min_samples_leaf=2, max_features=0.5, random_state=seed)
    return trees.of_forest(fitted.fit(rows, missed))


def process(rows: Array, missed: Array, *, n_own: int, n_others: int) -> Correction:
    """Return a process that remembers the rows, whose first columns are the job's and the next its neighbours'."""
    kept = spaced(len(rows), MAX_PROCESS_ROWS)
    own, first = _distinct(rows[kept, :n_own])
    others, second = _distinct(rows[kept, n_own : n_own + n_others])
    alike = learned.likeness(own, own, LENGTHS[0])[np.ix_(first, first)]
    beside = learned.likeness(others, others, LENGTHS[1])[np.ix_(second, second)]
    covariance = PARTS[0] * alike + PARTS[1] * beside + PARTS[2] * alike * beside + 1.0
    weights = cho_solve(cho_factor(covariance + NOISE * np.eye(len(kept)), lower=True), missed[kept])
    return Process(
        n_own=n_own,
        n_others=n_others,
        own=own,
        others=others,
        pairs=np.column_stack([first, second]),
        weights=trees.rounded(weights),
        parts=np.array(PARTS),
        lengths=np.array(LENGTHS),
    )


def spaced(count: int, most: int) -> Array:
    """At most `most` positions below `count`, evenly spaced."""
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).astype(np.intp))


def distinct(rows: Array) -> Array:
    """Rows as they are stored, each once."""
    return _distinct(rows)[0]


def _distinct(rows: Array) -> tuple[Array, Array]:
    stored: Any = trees.rounded(rows)
    found, inverse = np.unique(stored, axis=0, return_inverse=True)
    return found, inverse.ravel()
