"""What every node of a fleet is worth, kept from one request to the next: only rows that changed are looked at again.

worth = the least of    sum of what its GPUs' free pieces are worth + what its idle GPUs add together,
                        free CPU and free memory, each in GPUs for which it suffices (`markets`)
"""

import weakref
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import fleet, markets
from cotenant_extender.packing.patterns import Array

PER_JOB = HUNDREDTHS + 1
"""How much less the place in the table is for one job less."""


@dataclass(frozen=True, kw_only=True)
class Worths:
    """Of N nodes with at most G GPUs each.

    Attributes:
        places: of each GPU in the flat table of pieces, shape (N, G): of so many jobs and hundredths.
        pieces: what each GPU's free piece is worth, shape (N, G); 0 where it takes none.
        idle: whether a GPU is open and empty, shape (N, G).
        kinds: code of the model that a node's table is of, shape (N,).
        whole: worth of all pieces of a node, shape (N,).
        count: idle GPUs of a node, shape (N,).
        total: worth of a node, shape (N,).
    """

    places: Array
    pieces: Array
    idle: Array
    kinds: Array
    whole: Array
    count: Array
    total: Array

    @classmethod
    def empty(cls, rows: int, columns: int) -> Self:
        """For so many nodes and GPUs each."""
        return cls(
            places=np.zeros((rows, columns), dtype=np.intp),
            pieces=np.zeros((rows, columns)),
            idle=np.zeros((rows, columns), dtype=np.bool_),
            kinds=np.zeros(rows, dtype=np.intp),
            whole=np.zeros(rows),
            count=np.zeros(rows, dtype=np.intp),
            total=np.zeros(rows),
        )

    def look(self, source: fleet.Fleet, tables: markets.Tables, rows: Array) -> None:
        """Write some rows anew."""
        usable = source.present[rows] & (source.closed[rows] == 0)
        free = np.clip(source.free[rows], 0, HUNDREDTHS)
        jobs = np.where(usable, np.clip(source.tenants_left[rows], 0, markets.MOST_JOBS), 0)
        model = source.model[rows].astype(np.intp)
        idle = usable & (source.tenants[rows] == 0)
        places = (model * (markets.MOST_JOBS + 1) + jobs) * PER_JOB + free
        pieces = tables.pieces.ravel()[places]
        kinds = model[np.arange(len(rows)), usable.argmax(axis=1)]
        self.places[rows], self.pieces[rows], self.idle[rows] = places, pieces, idle
        self.kinds[rows], self.whole[rows], self.count[rows] = kinds, pieces.sum(axis=1), idle.sum(axis=1)
        gpus = self.whole[rows] + tables.idle[kinds, self.count[rows]]
        cpu, memory = source.free_cpu_millis[rows], source.free_memory_bytes[rows]
        self.total[rows] = np.minimum(gpus, tables.host(kinds, cpu, memory))


_OF_GPUS: Final = ("closed", "free", "tenants", "tenants_left", "model")
_OF_NODES: Final = ("free_cpu_millis", "free_memory_bytes")


class _Standing:
    """What a fleet's nodes are worth, and what was looked at then."""

    def __init__(self, source: fleet.Fleet) -> None:
        self.worths = Worths.empty(*source.present.shape)
        self._seen = {field: np.array(getattr(source, field)) for field in (*_OF_GPUS, *_OF_NODES)}
        self._fresh = True

    def changed(self, source: fleet.Fleet) -> Array:
        """Rows that differ from what was seen; from now on they are as seen. Copies change without a new version."""
        differs = np.full(source.present.shape, self._fresh)
        for field in _OF_GPUS:
            differs |= self._seen[field] != getattr(source, field)
        rows = differs.any(axis=1)
        for field in _OF_NODES:
            rows |= self._seen[field] != getattr(source, field)
        found = np.flatnonzero(rows)
        for field, seen in self._seen.items():
            seen[found] = getattr(source, field)[found]
        self._fresh = False
        return found


class Memory:
    """The worths of fleets, for the tables that were asked for last."""

    def __init__(self) -> None:
        self._tables: markets.Tables | None = None
        self._standing: weakref.WeakKeyDictionary[fleet.Fleet, _Standing] = weakref.WeakKeyDictionary()

    def of(self, source: fleet.Fleet, tables: markets.Tables) -> Worths:
        """Return the worth of every node.

        Of nodes whose GPUs are absent from a part, it says what they have as a whole.
        """
        if tables is not self._tables:
            self._tables = tables
            self._standing.clear()
        if source.whole is not None and source.whole[0].free is source.free:
            source = source.whole[0]
        standing = self._standing.get(source)
        if standing is None or standing.worths.places.shape != source.present.shape:
            standing = self._standing[source] = _Standing(source)
        rows = standing.changed(source)
        if len(rows):
            standing.worths.look(source, tables, rows)
        return standing.worths
