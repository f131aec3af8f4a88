"""From fitted scikit-learn forests to arrays that numpy evaluates."""

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor

from cotenant_predictor.trees import Trees


def of_forest(forest: RandomForestRegressor | ExtraTreesRegressor) -> Trees:
    """Return a fitted forest with one output; its prediction is the mean over its trees."""
    columns: dict[str, list[Any]] = {"feature": [], "threshold": [], "left": [], "right": [], "value": []}
    roots, start = [], 0
    for member in forest.estimators_:
        tree = member.tree_
        leaf = tree.children_left < 0
        here = np.arange(tree.node_count)
        columns["feature"].append(np.where(leaf, 0, tree.feature))
        columns["threshold"].append(np.where(leaf, 0.0, tree.threshold))
        columns["left"].append(start + np.where(leaf, here, tree.children_left))
        columns["right"].append(start + np.where(leaf, here, tree.children_right))
        columns["value"].append(np.where(leaf, tree.value[:, 0, 0] / len(forest.estimators_), 0.0))
        roots.append(start)
        start += tree.node_count
    depth = max(member.tree_.max_depth for member in forest.estimators_)
    return _assembled(columns, roots, depth=depth, base=0.0)


def rounded(values: Any) -> Any:
    """Values to the 24 bits that a model's file stores of them: far below any error of measurement, half the size.

    So that a model in memory and the same model read back agree.
    """
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def of_boosting(boosting: HistGradientBoostingRegressor) -> Trees:
    """Fitted histogram boosting without categorical columns or missing values."""
    columns: dict[str, list[Any]] = {"feature": [], "threshold": [], "left": [], "right": [], "value": []}
    roots, start, depth = [], 0, 1
    for (member,) in boosting._predictors:  # there is no public way to the trees
        nodes = member.nodes
        leaf = nodes["is_leaf"].astype(bool)
        here = np.arange(len(nodes))
        columns["feature"].append(np.where(leaf, 0, nodes["feature_idx"]))
        columns["threshold"].append(np.where(leaf, 0.0, nodes["num_threshold"]))
        columns["left"].append(start + np.where(leaf, here, nodes["left"]))
        columns["right"].append(start + np.where(leaf, here, nodes["right"]))
        columns["value"].append(np.where(leaf, nodes["value"], 0.0))
        roots.append(start)
        start += len(nodes)
        depth = max(depth, int(nodes["depth"].max()))
    base = float(rounded(boosting._baseline_prediction.item()))
    return _assembled(columns, roots, depth=depth, base=base)


def _assembled(columns: dict[str, list[Any]], roots: list[int], *, depth: int, base: float) -> Trees:
    whole = {name: np.concatenate(columns[name]).astype(np.int32) for name in ("feature", "left", "right")}
    real = {name: rounded(np.concatenate(columns[name])) for name in ("threshold", "value")}
    return Trees(**whole, **real, roots=np.array(roots, dtype=np.int32), depth=depth, base=base)
