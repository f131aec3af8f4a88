"""Bounds that keep their promise for unseen groups (group-conformal prediction).

Rows of one group are alike, so that a bound over all rows holds for the largest groups alone. Here every group weighs
the same, and the level is raised as split-conformal prediction does for G groups: level x (1 + 1 / G) (Vovk, Gammerman,
Shafer 2005; with groups as Dunn, Wasserman, Ramdas 2023).
"""

import numpy as np

from cotenant_predictor.trees import Array


def width(missed: Array, members: Array, *, level: float) -> float:
    """Return the least width that covers `level` of the held-out errors.

    Args:
        missed: measured less predicted, while the row was held out, shape (n_rows,).
        members: the group of each row, shape (n_rows,).
        level: share to cover, between 0 and 1.
    """
    _, group, counts = np.unique(members, return_inverse=True, return_counts=True)
    weight = 1.0 / (counts[group] * len(counts))
    order = np.argsort(missed, kind="stable")
    raised = min(1.0, level * (1 + 1 / len(counts)))
    reached = np.cumsum(weight[order])
    position = min(int(np.searchsorted(reached, raised - 1e-9)), len(missed) - 1)
    return max(0.0, float(missed[order][position]))
