"""An ensemble of regression trees as arrays, evaluated with numpy alone. Learned in `training.trees`."""

import dataclasses
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

_COLUMNS = ("roots", "feature", "threshold", "left", "right", "value")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trees:
    """All nodes of all trees, in arrays of shape (n_nodes,); the prediction is `base` plus the sum of leaves."""

    roots: Array
    """Node where each tree begins, shape (n_trees,)."""
    feature: Array
    """Column that a node asks; a leaf asks column 0 and points to itself."""
    threshold: Array
    """A row goes left where its value is at most this."""
    left: Array
    right: Array
    value: Array
    """What a leaf adds."""
    depth: int
    base: float

    def predict(self, rows: Array) -> Array:
        """Shape (n_rows,) from rows of shape (n_rows, n_features)."""
        values, width = np.ascontiguousarray(rows, dtype=np.float64).ravel(), rows.shape[1]
        begins = width * np.arange(len(rows))[:, None]
        children = np.column_stack([self.left, self.right]).ravel()
        node = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        for _ in range(self.depth):
            goes_right = values.take(begins + self.feature.take(node)) > self.threshold.take(node)
            node = children.take(2 * node + goes_right)
        result: Array = self.base + self.value.take(node).sum(axis=1)
        return result

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        return {"depth": self.depth, "base": self.base, **{name: getattr(self, name).tolist() for name in _COLUMNS}}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return what `to_state` gave.

        Raises:
            KeyError: a column is missing.
            ValueError: a node points outside of the arrays, or a number is not finite.
        """
        whole = {name: np.array(state[name], dtype=np.int32) for name in ("roots", "feature", "left", "right")}
        real = {name: np.array(state[name], dtype=np.float64) for name in ("threshold", "value")}
        nodes = len(real["value"])
        if any(column.shape != (nodes,) for name, column in (whole | real).items() if name != "roots"):
            raise ValueError("the columns of the trees differ in length")
        if not nodes or any(
            (whole[name] < 0).any() or (whole[name] >= nodes).any() for name in ("roots", "left", "right")
        ):
            raise ValueError("a node of the trees points to no node")
        if (whole["feature"] < 0).any() or not all(np.isfinite(column).all() for column in real.values()):
            raise ValueError("the trees hold a number that is negative or not finite")
        return cls(**whole, **real, depth=int(state["depth"]), base=float(state["base"]))
