"""What is to happen when: events in order of time, those of one time in the order in which they were put down. Pure."""

import heapq
from collections.abc import Callable
from typing import NamedTuple

Act = Callable[[], bool]
"""Returns whether anything changed: what was put down may have been overtaken."""


class _Event(NamedTuple):
    seconds: float
    number: int
    act: Act


class Agenda:
    """Events that are to come."""

    def __init__(self) -> None:
        self._events: list[_Event] = []
        self._number = 0

    def __bool__(self) -> bool:
        return bool(self._events)

    @property
    def next(self) -> float:
        """When the next one is; there is one."""
        return self._events[0].seconds

    def at(self, seconds: float, act: Act) -> None:
        """Put one down."""
        self._number += 1
        heapq.heappush(self._events, _Event(seconds, self._number, act))

    def do(self, *, now: float) -> bool:
        """All that are due, and what they put down for now; whether anything changed."""
        changed = False
        while self._events and self._events[0].seconds <= now:
            changed = heapq.heappop(self._events).act() or changed
        return changed
