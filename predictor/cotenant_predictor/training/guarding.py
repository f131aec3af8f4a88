"""Which lines each of several corrections learns from, so that what one namespace reports is known of each. Pure.

What follows from it is in `cotenant_predictor.jobs.guarded`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

from cotenant_predictor.trees import Array

MOST_PARTS: Final = 3
"""Into so many parts namespaces are divided: a correction learns from two thirds of them, and there are three."""
FEWEST_PARTS: Final = 2
"""Also of a single namespace: what is learned without it is nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parts:
    """Lines by the part of their namespace. A row of an array is a part, a column is a line.

    Lines without a namespace were measured on purpose, and are in all rows.
    """

    without: Array
    """The lines that are not of the part, shape (n_parts, n_lines); of lines without namespace alone there is one."""
    alone: Array
    """The lines of the part, shape (n_parts, n_lines); of lines without namespace alone there is none."""
    believed: Array
    """The lines without a namespace, shape (n_lines,)."""


def parts(namespaces: Sequence[str | None]) -> Parts:
    """Namespaces divided into parts, so that every namespace is of exactly one.

    The division follows from the names, so that the same data give the same model.
    """
    named = sorted({name for name in namespaces if name is not None})
    count = min(max(len(named), FEWEST_PARTS), MOST_PARTS) if named else 0
    part = {name: place % count for place, name in enumerate(named)}
    of_line = np.array([-1 if name is None else part[name] for name in namespaces])
    believed: Array = of_line == -1
    each = np.arange(count)[:, None]
    without = of_line != each if count else believed[None, :]
    return Parts(without=without, alone=(of_line == each) | believed[None, :], believed=believed)
