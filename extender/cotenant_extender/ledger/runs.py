"""How long pods ran that have finished, by what makes them alike; bounded in memory."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant_extender import records

KINDS = 1024
"""Kinds of which run times are kept; those that were seen longest ago are forgotten."""
KEPT = 32
"""The latest run times of a kind that count."""
FEWEST = 3
"""Below so many, nothing is known of a kind."""
UNKNOWN_SECONDS = 600.0
"""A pod of which nothing is known is expected to run this long, until `FEWEST` pods of any kind have finished."""
NO_KIND = -1


class Known(NamedTuple):
    """What is known of the run times of one kind, in seconds: their median and their maximum."""

    typical: float
    longest: float


class Runs:
    """Run times by kind. A kind has a number, so that many tenants are looked up at once.

    Attributes:
        epoch: grows when numbers were given to other kinds.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._numbers: OrderedDict[Hashable, int] = OrderedDict()
        self._free = list(range(KINDS - 1, -1, -1))
        self._seconds: dict[int, deque[float]] = {}
        self._all: deque[float] = deque(maxlen=KEPT)
        self._table: NDArray[np.float64] = np.full((KINDS + 1, 2), np.nan)

    def learn(self, record: records.Pod, before: records.Pod | None) -> None:
        """Take note of a pod that has succeeded since it was seen before.

        Who failed or was evicted says nothing of how long others run.
        """
        started, ended, likeness = record.started, record.tenure.ended, record.likeness
        if record.phase != "Succeeded" or (before is not None and before.finished):
            return
        if started is None or ended is None or ended < started:
            return
        self._all.append(ended - started)
        if likeness is None:
            return
        number = self._numbered(likeness)
        times = self._seconds.setdefault(number, deque(maxlen=KEPT))
        times.append(ended - started)
        if len(times) >= FEWEST:
            self._table[number] = float(np.median(times)), max(times)

    def number(self, likeness: Hashable | None) -> int:
        """Return the number of a kind; `NO_KIND` where it has none. Valid during an epoch.

        Half of the numbers are left to kinds that are learned of. So whatever runs, an epoch lasts until as many kinds
        have been learned of.
        """
        if likeness is None:
            return NO_KIND
        if likeness not in self._numbers and len(self._free) <= KINDS // 2:
            return NO_KIND
        return self._numbered(likeness)

    def _numbered(self, likeness: Hashable) -> int:
        """Return the number of a kind, whatever has to be forgotten for it."""
        found = self._numbers.get(likeness)
        if found is None:
            if not self._free:
                self._forget()
            found = self._numbers[likeness] = self._free.pop()
        self._numbers.move_to_end(likeness)
        return found

    def of(self, likeness: Hashable | None) -> Known | None:
        """What is known of a kind; None: nothing."""
        number = self._numbers.get(likeness, NO_KIND)
        typical, longest = self._table[number]
        return None if np.isnan(typical) else Known(float(typical), float(longest))

    def tables(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`Known.typical` and `Known.longest` of many kinds, any shape; NaN where nothing is known."""
        found = self._table[numbers]
        return found[..., 0], found[..., 1]

    @property
    def of_any(self) -> float:
        """The median of the latest run times of all kinds."""
        return float(np.median(self._all)) if len(self._all) >= FEWEST else UNKNOWN_SECONDS

    def _forget(self) -> None:
        """The older half of the kinds makes room at once, so that numbers seldom change hands."""
        self.epoch += 1
        for likeness in list(self._numbers)[: KINDS // 2]:
            number = self._numbers.pop(likeness)
            self._seconds.pop(number, None)
            self._table[number] = np.nan
            self._free.append(number)
