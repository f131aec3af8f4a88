"""A set of nodes for one pod, as one bit for each row of the fleet at the time at which the set was made.

A node that came later has no bit, and so is not in the set.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant_api.names import NodeName

Rows = Mapping[NodeName, int]
Array = NDArray[Any]


class NodeSet:
    """Some nodes of a fleet. Frozen; equal sets of the same rows are equal.

    Attributes:
        rows: the row of each node when the set was made; never changed by anyone.
    """

    __slots__ = ("_bits", "rows")

    def __init__(self, rows: Rows, bits: bytes) -> None:
        self.rows, self._bits = rows, bits

    def __contains__(self, name: NodeName) -> bool:
        row = self.rows.get(name)
        return row is not None and bool(self._bits[row // 8] & (128 >> row % 8))

    @staticmethod
    def of(rows: Rows, members: Array) -> "NodeSet | None":
        """Make a set from a mask of shape (N,); None where it is empty."""
        return NodeSet(rows, np.packbits(members).tobytes()) if members.any() else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSet) and self.rows is other.rows and self._bits == other._bits

    def __hash__(self) -> int:
        return hash(self._bits)

    def without(self, names: Iterable[NodeName]) -> "NodeSet | None":
        """Return the set without some nodes; None where nothing is left."""
        members = self.mask()
        members[[row for name in names if (row := self.rows.get(name)) is not None]] = False
        return NodeSet.of(self.rows, members)

    def mask(self) -> Array:
        """Return the rows of that time as a mask, shape (N,)."""
        bits: Array = np.unpackbits(np.frombuffer(self._bits, dtype=np.uint8), count=len(self.rows))
        return bits.astype(np.bool_)

    def among(self, names: Sequence[NodeName]) -> Array:
        """Return which of some nodes are in the set, shape (len(names),)."""
        rows = np.fromiter((self.rows.get(name, -1) for name in names), dtype=np.intp, count=len(names))
        # Row -1 is the one behind the last: nodes without a bit.
        return np.append(self.mask(), False)[rows]
