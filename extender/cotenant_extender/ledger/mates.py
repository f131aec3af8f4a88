"""Which pods count for a gang: as many as its size, so that one too many neither completes nor blocks it. Pure.

In a namespace anybody may make one more pod that says the same name and size. Pods that run, or are about to, count
before those that wait, then the oldest, then by UID. Who cannot start yet, has succeeded or is being deleted counts
last, in this order: what takes its place may be there already.
"""

import bisect
import enum
import math

from cotenant_api.names import PodUID
from cotenant_extender import records

Rank = tuple[int, float, PodUID]


class _Stage(enum.IntEnum):
    """How far a pod has come; a lower one counts first."""

    BOUND = 0
    LIFTED = 1
    WAITS = 2
    GATED = 3
    """By a gate of somebody else."""
    SUCCEEDED = 4
    LEAVES = 5


class Mates:
    """The pods of one gang.

    Args:
        size: how many count.

    Attributes:
        counted: the pods that count.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.counted: dict[PodUID, records.Pod] = {}
        self._pods: dict[PodUID, records.Pod] = {}
        self._ranks: list[Rank] = []

    def __bool__(self) -> bool:
        """Return whether there is any pod."""
        return bool(self._ranks)

    def put(self, record: records.Pod) -> PodUID | None:
        """Put a pod in. Return the pod that counts no longer for it, perhaps the same; None: there is none."""
        rank = _rank(record)
        place = bisect.bisect_left(self._ranks, rank)
        self._ranks.insert(place, rank)
        self._pods[record.uid] = record
        self.counted[record.uid] = record
        if len(self.counted) <= self._size:
            return None
        last = self._ranks[self._size][-1] if place < self._size else record.uid
        del self.counted[last]
        return last

    def remove(self, uid: PodUID) -> PodUID | None:
        """Take a pod out. Return the pod that counts in its place; None: there is none."""
        place = bisect.bisect_left(self._ranks, _rank(self._pods.pop(uid)))
        del self._ranks[place]
        if self.counted.pop(uid, None) is None or len(self._ranks) < self._size:
            return None
        heir = self._ranks[self._size - 1][-1]
        self.counted[heir] = self._pods[heir]
        return heir


def _rank(record: records.Pod) -> Rank:
    created = math.inf if record.created is None else record.created
    return _stage(record), created, record.uid


def _stage(record: records.Pod) -> _Stage:
    if record.deleting:
        return _Stage.LEAVES
    if record.phase == "Succeeded":
        return _Stage.SUCCEEDED
    if record.node is not None:
        return _Stage.BOUND
    if record.gates and not record.gated:
        return _Stage.GATED
    return _Stage.LIFTED if record.earmark is not None and not record.gates else _Stage.WAITS
