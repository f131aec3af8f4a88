"""What both learners decide alike: when more freedom is worth it, and what makes columns comparable. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from cotenant_predictor.training import trees
from cotenant_predictor.trees import Array

CLEARLY: Final = 0.98
"""What has more freedom must leave less than this share of the simpler one's error."""
SAME: Final = 1e-6
"""A column that spreads by less than this share is constant: what is left is rounding."""


def simplest(errors: Mapping[str, float]) -> str:
    """Return the first name, from the least freedom to the most, unless the error of a later one is clearly smaller."""
    names = iter(errors)
    best = next(names)
    for name in names:
        if errors[name] < errors[best] * CLEARLY:
            best = name
    return best


def scale_of(spread: Array, center: Array) -> Array:
    """Return what differences to the centre are divided by, as stored; 1 where a column is constant."""
    scale: Any = trees.rounded(np.where(spread > SAME * (1 + np.abs(center)), spread, 1.0))
    return np.asarray(scale)
