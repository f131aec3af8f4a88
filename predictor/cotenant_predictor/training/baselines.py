"""The published learners: a random forest or gradient boosting, its size found by a grid with 5-fold cross-validation.

Kept as published, so that what is compared is compared fairly: the target is learned as it is, on no logarithm.
"""

from typing import Any, Final

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from cotenant_predictor.trees import Array

FOLDS: Final = 5
GRID_ROWS: Final = 400
"""With more rows, the grid is searched on a random part of this many; the best is then fitted on all rows."""

_GRID: Final[dict[str, dict[str, list[Any]]]] = {
    "horus-rf": {"n_estimators": [30, 100], "max_depth": [4, 8, 16]},
    "horus-gbm": {"n_estimators": [50, 150], "max_depth": [2, 3, 5]},
}
_LEARNERS: Final = {"horus-rf": RandomForestRegressor, "horus-gbm": GradientBoostingRegressor}
NAMES: Final = tuple(_LEARNERS)


def fit(name: str, rows: Array, values: Array, *, seed: int = 0) -> Pipeline:
    """One of `NAMES`, fitted: a scikit-learn pipeline that normalises and predicts.

    Args:
        name: which learner.
        rows: features, shape (n_rows, n_features).
        values: the target, shape (n_rows,).
        seed: of the learner, of the folds, and of the choice of rows for the grid.
    """
    chosen = np.random.default_rng(seed).permutation(len(rows))[:GRID_ROWS]
    best: dict[str, Any] = {}
    if len(chosen) >= 2 * FOLDS:
        search = GridSearchCV(
            _pipeline(name, {}, seed=seed),
            {f"{_LEARNERS[name].__name__.lower()}__{key}": options for key, options in _GRID[name].items()},
            scoring="neg_root_mean_squared_error",
            cv=KFold(FOLDS, shuffle=True, random_state=seed),
            refit=False,
        )
        search.fit(rows[chosen], values[chosen])
        best = {key.rpartition("__")[2]: value for key, value in search.best_params_.items()}
    pipeline = _pipeline(name, best, seed=seed)
    pipeline.fit(rows, values)
    return pipeline


def _pipeline(name: str, parameters: dict[str, Any], *, seed: int) -> Pipeline:
    return make_pipeline(StandardScaler(), _LEARNERS[name](random_state=seed, **parameters))
