"""The line as arrays, one value of each kind for every entry, in order; entries come and go in place."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from cotenant_extender.packing import rules
from cotenant_extender.queue import order

NO_KIND: Final = -1
_SPARE: Final = 64


class Row(NamedTuple):
    """What arrays hold of an entry.

    Attributes:
        kind: number of a single pod's kind of request; `NO_KIND` of a gang.
        barred: whether it is not tried as long as it is as it is: a gang that is not complete, or one that was refused.
    """

    kind: int
    priority: int
    since: float
    aged: bool
    gated: bool
    barred: bool


_TYPES: Final = {
    "kind": np.int64,
    "priority": np.int64,
    "since": np.float64,
    "aged": np.bool_,
    "gated": np.bool_,
    "barred": np.bool_,
}


class Columns:
    """Values by place in the line, each array of shape (E,); see `Row`. They are true until an entry comes or goes."""

    kind: rules.Array
    priority: rules.Array
    since: rules.Array
    aged: rules.Array
    gated: rules.Array
    barred: rules.Array

    def __init__(self) -> None:
        self._count = 0
        self._room: dict[str, rules.Array] = {name: np.zeros(_SPARE, dtype=kind) for name, kind in _TYPES.items()}
        self._cut()

    def __len__(self) -> int:
        return self._count

    def read(self, found: Sequence[Row]) -> None:
        """All entries anew."""
        self._count = len(found)
        room = self._count + self._count // 2 + _SPARE
        for name, values in zip(_TYPES, zip(*found, strict=True) if found else [()] * len(_TYPES), strict=True):
            made = self._room[name] = np.zeros(room, dtype=_TYPES[name])
            made[: self._count] = values
        self._cut()

    def put(self, place: int, row: Row) -> None:
        """Put an entry before what stands at a place."""
        end = self._count
        if end == len(self._room["kind"]):
            self._room = {name: np.concatenate([room, np.zeros_like(room)]) for name, room in self._room.items()}
        for room, value in zip(self._room.values(), row, strict=True):
            room[place + 1 : end + 1] = room[place:end]
            room[place] = value
        self._count += 1
        self._cut()

    def take(self, place: int) -> None:
        """Take out the entry at a place."""
        end = self._count
        for room in self._room.values():
            room[place : end - 1] = room[place + 1 : end]
        self._count -= 1
        self._cut()

    def _cut(self) -> None:
        for name, room in self._room.items():
            setattr(self, name, room[: self._count])


def row(entry: order.Entry, kind: int) -> Row:
    """Return what arrays hold of an entry whose kind has this number."""
    return Row(kind, entry.priority, entry.since, entry.aged, entry.gated, not entry.complete)
