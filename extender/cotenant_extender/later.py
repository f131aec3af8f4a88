"""Writes that can wait: they are begun when nothing urgent is under way, and after `MAX_DELAY_SECONDS` in any case.

On a control plane of few cores what the API server does for a condition is what it does not do for a Binding.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from cotenant_extender import slots

MAX_DELAY_SECONDS = 20.0
"""Less than `reporting.INTERVAL_SECONDS`, after which a pod is told again."""
MANY = 8
"""So many urgent writes under way at once: a queue is being worked off."""
CALM_SECONDS = 0.5
HANGS_SECONDS = 5.0
"""An urgent write that takes longer hangs, as those of its namespace may: others need not wait for it."""
PAUSE_SECONDS = 0.1
IN_FLIGHT = 16


class Urgency:
    """Counts urgent writes while they are under way. `clock`: seconds, by one that never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._under_way = slots.Moving(clock, hangs_seconds=HANGS_SECONDS)
        self._many_at = -math.inf

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """One more for the block."""
        with self._under_way.one():
            if self._under_way.at_least(MANY):
                self._many_at = self._clock()
            yield

    def many(self) -> bool:
        """Return whether a queue is being worked off, or was a moment ago."""
        return self._under_way.at_least(MANY) or self._clock() - self._many_at < CALM_SECONDS


class Later:
    """Gives turns to work that can wait, so many at a time, and to each namespace a part of these.

    Args:
        urgency: what goes first.
        clock: seconds, by one that never goes back.
    """

    def __init__(self, urgency: Urgency, clock: Callable[[], float]) -> None:
        self._urgency, self._clock = urgency, clock
        self._slots = slots.Slots(IN_FLIGHT, part=1)
        self._stopped = False

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[bool]:
        """Wait until it is time, and hold a turn for the block; False: what has not begun is to be forgotten."""
        since = self._clock()
        async with self._slots.of(namespace):
            while not self._stopped:
                if not self._urgency.many() or self._clock() - since >= MAX_DELAY_SECONDS:
                    break
                await asyncio.sleep(PAUSE_SECONDS)
            yield not self._stopped

    def stop(self) -> None:
        """Let nothing more begin."""
        self._stopped = True
