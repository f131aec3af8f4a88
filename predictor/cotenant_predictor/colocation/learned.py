"""What measured runs teach beyond the prior, as values that numpy evaluates: a line, a process or trees. Pure.

All take rows of shape (n_rows, n_features), whose unknown values (NaN) count as the centre of what was measured.
Learned by `cotenant_predictor.training.colocation`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Protocol, Self

import numpy as np

from cotenant_predictor.trees import Array, Trees

_FAR: Final = 1e3
_ROUNDING: Final = 1e-9


class Correction(Protocol):
    """Adds to the prior."""

    def predict(self, rows: Array) -> Array:
        """Shape (n_rows,), from comparable rows."""
        ...

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A weighted sum of the columns."""

    weights: Array
    """Shape (n_features,)."""

    def predict(self, rows: Array) -> Array:
        """Shape (n_rows,)."""
        result: Array = rows @ self.weights
        return result

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        return {"weights": self.weights.tolist()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what `to_state` gave.

        Raises:
            KeyError: something is missing.
            ValueError: a number is not finite.
        """
        return cls(weights=_finite(state, "weights", dimensions=1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Process:
    """A Gaussian process over pairs of (job, its neighbours), evaluated at its mean.

        k((a, b), (a', b')) = c_1 K(a, a') + c_2 K(b, b') + c_3 K(a, a') K(b, b') + 1
        K(x, y)             = exp(-|x - y| / length)

    What is common to a job beside anyone, to anyone beside a neighbour, and to the two of them. A job unlike all
    measured ones is judged by its neighbours; neighbours unlike all measured ones by the job; where both are strange,
    nothing is added to the prior but the mean.
    """

    n_own: int
    """Columns of the job; the next `n_others` are those of its neighbours."""
    n_others: int
    own: Array
    """Distinct measured jobs, shape (n_jobs, n_own)."""
    others: Array
    """Distinct measured neighbours, shape (n_neighbours, n_others)."""
    pairs: Array
    """Positions in `own` and `others` of what was measured, shape (n_measured, 2)."""
    weights: Array
    """Shape (n_measured,)."""
    parts: Array
    """c_1, c_2, c_3."""
    lengths: Array
    """Of the job and of the neighbours."""

    def predict(self, rows: Array) -> Array:
        """Shape (n_rows,)."""
        own, others = self.likeness(rows)
        owned = np.bincount(self.pairs[:, 0], self.weights, minlength=len(self.own))
        beside = np.bincount(self.pairs[:, 1], self.weights, minlength=len(self.others))
        both = ((own[:, self.pairs[:, 0]] * others[:, self.pairs[:, 1]]) @ self.weights) * self.parts[2]
        result: Array = self.parts[0] * (own @ owned) + self.parts[1] * (others @ beside) + both + self.weights.sum()
        return result

    def likeness(self, rows: Array) -> tuple[Array, Array]:
        """K to every measured job and to all measured neighbours, shapes (n_rows, n_jobs), (n_rows, n_neighbours)."""
        own = rows[:, : self.n_own]
        others = rows[:, self.n_own : self.n_own + self.n_others]
        return likeness(own, self.own, self.lengths[0]), likeness(others, self.others, self.lengths[1])

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        arrays = ("own", "others", "pairs", "weights", "parts", "lengths")
        return {"nOwn": self.n_own, "nOthers": self.n_others, **{name: getattr(self, name).tolist() for name in arrays}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what `to_state` gave.

        Raises:
            KeyError: something is missing.
            ValueError: a number is not finite, shapes differ, or a position is outside.
        """
        n_own, n_others = int(state["nOwn"]), int(state["nOthers"])
        own = _finite(state, "own", dimensions=2).reshape(-1, n_own)
        others = _finite(state, "others", dimensions=2).reshape(-1, n_others)
        weights = _finite(state, "weights", dimensions=1)
        pairs = np.array(state["pairs"], dtype=np.intp)
        if pairs.shape != (len(weights), 2) or (pairs < 0).any() or (pairs >= (len(own), len(others))).any():
            raise ValueError("a measured pair names no measured job")
        parts, lengths = _finite(state, "parts", dimensions=1), _finite(state, "lengths", dimensions=1)
        if len(parts) != 3 or len(lengths) != 2 or (lengths <= 0).any():
            raise ValueError("a process has three parts and two lengths above 0")
        arrays: dict[str, Array] = {"own": own, "others": others, "pairs": pairs, "weights": weights}
        return cls(n_own=n_own, n_others=n_others, parts=parts, lengths=lengths, **arrays)


def likeness(rows: Array, measured: Array, length: float) -> Array:
    """exp(-distance / length), shape (n_rows, n_measured)."""
    result: Array = np.exp(-np.minimum(distances(rows, measured) / length, _FAR))
    return result


def distances(rows: Array, measured: Array) -> Array:
    """Root mean square over columns, shape (n_rows, n_measured)."""
    squares = (rows**2).sum(axis=1)[:, None] + (measured**2).sum(axis=1) - 2 * rows @ measured.T
    # Rounding leaves a little where rows are equal, and the root would make it count.
    result: Array = np.sqrt(np.where(squares < _ROUNDING, 0.0, squares) / max(1, rows.shape[1]))
    return result


_KINDS: Final[dict[str, type[Any]]] = {"line": Line, "process": Process, "trees": Trees}


def state_of(correction: Correction) -> dict[str, Any]:
    """Return a correction as JSON, with its kind."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(correction, cls))
    return {"kind": kind, **correction.to_state()}


def from_state(state: Mapping[str, Any]) -> Correction:
    """Return what `state_of` gave.

    Raises:
        KeyError: something is missing.
        ValueError: no such kind, or the state makes no sense.
    """
    kind = str(state["kind"])
    if kind not in _KINDS:
        raise ValueError(f"no such correction: {kind}")
    found: Correction = _KINDS[kind].from_state({key: value for key, value in state.items() if key != "kind"})
    return found


def _finite(state: Mapping[str, Any], name: str, *, dimensions: int) -> Array:
    values = np.array(state[name], dtype=np.float64)
    if not np.isfinite(values).all() or (values.ndim != dimensions and values.size):
        raise ValueError(f"{name} has another shape, or is not finite")
    return values
