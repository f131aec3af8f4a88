"""What was allocated when so much had arrived: the published curve, column by column. Pure.

An arrival counts in column k when the GPU demand that has arrived with it, placed or not, rounds to k percent of the
cluster. The value of a column is the mean over its arrivals, those of pods without GPU too.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

HEADLINE: Final = 100
"""The column that is compared: as much has arrived as the cluster has."""
LAST: Final = 130
SHOWN: Final = (HEADLINE, LAST)

Curve: TypeAlias = tuple[float | None, ...]
"""A mean by column, 0 to `LAST`; None where nothing arrived in the column."""


def column(arrived_milli: int, capacity_milli: int) -> int:
    """Arrived demand in percent of capacity, rounded to the nearest, halves up."""
    return (200 * arrived_milli + capacity_milli) // (2 * capacity_milli)


class Account:
    """Adds up a percentage of capacity over arrivals."""

    def __init__(self, *, capacity_milli: int) -> None:
        self._capacity = capacity_milli
        self._sums = [0.0] * (LAST + 1)
        self._counts = [0] * (LAST + 1)

    def add(self, place: int, milli: float) -> None:
        """Count an arrival in a column; what arrives beyond the last one is not counted."""
        if place <= LAST:
            self._sums[place] += milli
            self._counts[place] += 1

    def curve(self) -> Curve:
        """Means in percent of capacity."""
        pairs = zip(self._sums, self._counts, strict=True)
        return tuple(100 * total / (count * self._capacity) if count else None for total, count in pairs)


def mean(values: Sequence[float | None]) -> float | None:
    """Of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
