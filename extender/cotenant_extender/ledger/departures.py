"""Pods that have left their nodes, and which pods that wait are still to be compared with each. Pure.

Anybody's pods end at any time, and thousands may wait. So a pass compares only so many, and the next one goes on.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from cotenant_api.names import PodUID
from cotenant_extender import records

LIMIT: Final = 10_000
"""Pods that have left and were compared with nobody yet. Beyond it the oldest is forgotten: the next try tells more."""

Refused = Callable[[records.Pod], Iterable[PodUID]]


class Departures:
    """Pods in the order in which they left."""

    def __init__(self) -> None:
        self._left: deque[records.Pod] = deque(maxlen=LIMIT)
        self._current: records.Pod | None = None
        self._rest: Iterator[PodUID] = iter(())

    def __bool__(self) -> bool:
        """Return whether any comparison is left."""
        return self._current is not None or bool(self._left)

    def clear(self) -> None:
        """Forget all: whoever follows kube-scheduler later learns from its tries since then."""
        self._left.clear()
        self._current, self._rest = None, iter(())

    def add(self, record: records.Pod) -> None:
        """Note a pod that has left."""
        self._left.append(record)

    def pairs(self, refused: Refused) -> Iterator[tuple[records.Pod, PodUID | None]]:
        """Yield each pod that has left: first alone, then with each that waits and was refused its node.

        Whoever stops is given the rest the next time.
        """
        while self:
            if self._current is None:
                self._current = self._left.popleft()
                self._rest = iter(refused(self._current))
                yield self._current, None
            for uid in self._rest:
                yield self._current, uid
            self._current = None
