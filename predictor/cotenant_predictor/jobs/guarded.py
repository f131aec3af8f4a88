"""Corrections of one target that no namespace alone can move far for the jobs of others. Pure.

A tenant decides what its job does while it is measured, so a single namespace's measurements prove nothing. Therefore
namespaces are divided into parts, and corrections are learned in two ways (`cotenant_predictor.training.guarding`):
a_i without the i-th part, s_i from the i-th part alone; lines without a namespace are in all of them. With f(x) the
bound of the formula, which also stands for a correction that had too few lines or that x is not like,

    bound     b(x) = min(max_i a_i(x), max(f(x), the second largest s_i(x)))

and the same of the median. Of one namespace, in part j, neither a_j nor any s_i but s_j knows anything, so that

    from below     b(x) >= min(a_j(x), max(f(x), the second largest s_i(x) with i != j))
    from above     b(x) <= max(f(x), the largest s_i(x) with i != j)

whatever it reports. Where all lines are of one namespace the second term is left out: it may raise, and not lower.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np

from cotenant_predictor.jobs.residual import Residual
from cotenant_predictor.trees import Array

SUPPORT: Final = 2
"""So many parts have to bear out what is above the formula."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Said:
    """What is said of rows; each of shape (n_rows,)."""

    median: Array
    upper: Array
    outside: Array
    """Whether a row is stranger than what was measured allows to judge."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Guarded:
    """The corrections of one target."""

    members: tuple[Residual, ...]
    """At least one, each learned without a part of the namespaces; of lines without namespace alone there is one."""
    supports: tuple[Residual, ...] | None = None
    """Each learned from a part alone; None: no two namespaces were measured, and nothing bounds from above."""
    has_formula: bool = False
    """Whether a part had too few lines: the formula stands in its place among the members."""
    says_outside: bool = True
    """Whether enough was measured on purpose to say of a row that nothing like it was."""

    def of(self, rows: Array, *, median: Array, upper: Array) -> Said:
        """Return what is said of rows of shape (n_rows, n_features).

        Args:
            rows: columns as `features.NAMES`.
            median: the formula's, shape (n_rows,).
            upper: the formula's bound, shape (n_rows,).
        """
        if self._is_believed:
            (member,) = self.members
            at = member.distance(rows)
            return Said(median=member.median(rows, at), upper=member.upper(rows, at), outside=member.is_outside(at))
        formula = np.stack([median, np.maximum(median, upper)])
        found, outside = _of_each(self.members, rows, formula)
        values: Array = found.max(axis=0)
        if self.has_formula:
            values = np.maximum(values, formula)
        if self.supports is not None:
            values = np.minimum(values, self._supported(rows, formula))
        says = self.says_outside and not self.has_formula
        is_outside: Array = np.all(outside, axis=0) & np.bool_(says)
        return Said(median=values[0], upper=values[1], outside=is_outside)

    @property
    def _is_believed(self) -> bool:
        """Whether all of it was measured on purpose."""
        return len(self.members) == 1 and not self.has_formula and self.supports is None

    def _supported(self, rows: Array, formula: Array) -> Array:
        """Return the highest that the formula or two parts bear out, shape (2, n_rows): medians and bounds."""
        if self.supports is None or len(self.supports) < SUPPORT:
            return formula
        found, _ = _of_each(self.supports, rows, formula)
        result: Array = np.maximum(formula, np.sort(found, axis=0)[-SUPPORT])
        return result

    def distance(self, rows: Array) -> Array:
        """To the nearest row that any of them was taught, shape (n_rows,)."""
        result: Array = np.min([member.distance(rows) for member in self.members], axis=0)
        return result

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        supports = None if self.supports is None else [support.to_state() for support in self.supports]
        return {
            "members": [member.to_state() for member in self.members],
            "supports": supports,
            "hasFormula": self.has_formula,
            "saysOutside": self.says_outside,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what `to_state` gave.

        Raises:
            KeyError: something is missing.
            ValueError: a correction is not valid, or there is none.
        """
        members = tuple(Residual.from_state(member) for member in state["members"])
        if not members:
            raise ValueError("there is no correction among the members")
        supports = state["supports"]
        return cls(
            members=members,
            supports=None if supports is None else tuple(map(Residual.from_state, supports)),
            has_formula=bool(state["hasFormula"]),
            says_outside=bool(state["saysOutside"]),
        )


def _of_each(corrections: Sequence[Residual], rows: Array, formula: Array) -> tuple[Array, Array]:
    """Medians and bounds, shape (n_corrections, 2, n_rows), the formula's where a row is outside; and whether it is."""
    distances = [one.distance(rows) for one in corrections]
    outside = np.array([one.is_outside(at) for one, at in zip(corrections, distances, strict=True)])
    said = [
        np.stack([one.median(rows, at), one.upper(rows, at)]) for one, at in zip(corrections, distances, strict=True)
    ]
    return np.where(outside[:, None, :], formula, np.array(said)), outside
