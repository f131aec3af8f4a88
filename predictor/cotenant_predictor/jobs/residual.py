"""What measurements teach beyond the formula: a correction of one target, and how far it may be off. Pure.

With z = log(1 + target), p = log(1 + the formula's value), x the features, d the distance to what was measured,

    nearness   n(d) = clip((far - d) / (far - near), 0, 1)
    median     z    = slope x p + offset + (trust_far + (trust_near - trust_far) x n) x trees(x)
    bound      z    + width_far + (width_near - width_far) x n

A job like a measured one is corrected by what was learned; a strange one falls back to the formula, with a wider bound.
Learned by `cotenant_predictor.training.jobs`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np

from cotenant_predictor.trees import Array, Trees

_NUMBERS = (
    "slope", "offset", "near", "far", "outside", "trust_near", "trust_far", "width_near", "width_far",
)  # fmt: skip
_ARRAYS = ("center", "scale", "reference")
_MOST_LOG: Final = 700.0
"""Of z: what is measured has no bound but that of a float, and a correction of it none at all."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Residual:
    """The correction of one target."""

    physics_column: int
    """The column of a row that holds p."""
    slope: float
    offset: float
    trees: Trees | None
    center: Array
    """Shape (n_features,); with `scale` it makes columns comparable."""
    scale: Array
    reference: Array
    """Measured rows after that, shape (n_reference, n_features)."""
    near: float
    """Distance of a row whose like was measured."""
    far: float
    """Distance of a typical row of an unmeasured group."""
    outside: float
    """Distance beyond which nothing is claimed."""
    trust_near: float
    trust_far: float
    width_near: float
    width_far: float

    def distance(self, rows: Array) -> Array:
        """To the nearest measured row, shape (n_rows,), from rows of shape (n_rows, n_features)."""
        return nearest((rows - self.center) / self.scale, self.reference)

    def nearness(self, distance: Array) -> Array:
        """From 0 (as far as an unmeasured group) to 1 (its like was measured)."""
        return nearness(distance, near=self.near, far=self.far)

    def median(self, rows: Array, distance: Array | None = None) -> Array:
        """Return the target's median, shape (n_rows,)."""
        log = self._median_log(rows, self.distance(rows) if distance is None else distance)
        return np.expm1(np.minimum(log, _MOST_LOG))

    def upper(self, rows: Array, distance: Array | None = None) -> Array:
        """Return the target's upper bound, shape (n_rows,)."""
        distance = self.distance(rows) if distance is None else distance
        width = self.width_far + (self.width_near - self.width_far) * self.nearness(distance)
        return np.expm1(np.minimum(self._median_log(rows, distance) + width, _MOST_LOG))

    def is_outside(self, distance: Array) -> Array:
        """Return whether rows are stranger than what was measured allows to judge, shape (n_rows,)."""
        result: Array = distance > self.outside
        return result

    def _median_log(self, rows: Array, distance: Array) -> Array:
        log: Array = self.slope * rows[:, self.physics_column] + self.offset
        if self.trees is not None:
            trust = self.trust_far + (self.trust_near - self.trust_far) * self.nearness(distance)
            log = log + trust * self.trees.predict(rows)
        return np.maximum(log, 0.0)

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "physicsColumn": self.physics_column,
            **{name: getattr(self, name) for name in _NUMBERS},
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
            "trees": None if self.trees is None else self.trees.to_state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what `to_state` gave.

        Raises:
            KeyError: something is missing.
            ValueError: a number is not finite, or shapes differ.
        """
        numbers = {name: float(state[name]) for name in _NUMBERS}
        arrays = {name: np.array(state[name], dtype=np.float64) for name in _ARRAYS}
        columns = arrays["center"].shape
        if len(columns) != 1 or arrays["scale"].shape != columns or arrays["reference"].shape[1:] != columns:
            raise ValueError("center, scale and reference differ in columns")
        every = [np.array(list(numbers.values())), *arrays.values()]
        if not all(np.isfinite(value).all() for value in every) or (arrays["scale"] <= 0).any():
            raise ValueError("a number is not finite, or a scale not positive")
        trees = None if state["trees"] is None else Trees.from_state(state["trees"])
        values: dict[str, Any] = {**numbers, **arrays}
        return cls(physics_column=int(state["physicsColumn"]), trees=trees, **values)


def nearness(distance: Array, *, near: float, far: float) -> Array:
    """n(d) of the package's formula, shape (n_rows,)."""
    result: Array = np.clip((far - distance) / max(far - near, 1e-12), 0.0, 1.0)
    return result


def nearest(rows: Array, reference: Array) -> Array:
    """Root mean square distance to the nearest of `reference`, shape (n_rows,); columns were made comparable."""
    squares = (rows**2).sum(axis=1)[:, None] + (reference**2).sum(axis=1) - 2 * rows @ reference.T
    result: Array = np.sqrt(np.maximum(squares.min(axis=1), 0.0) / max(1, rows.shape[1]))
    return result
