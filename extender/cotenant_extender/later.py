"""Writes that can wait: they are begun when nothing urgent is under way, and after `MAX_DELAY_SECONDS` in any case.

On a control plane of few cores what the API server does for a condition is what it does not do for a Binding.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

MAX_DELAY_SECONDS = 20.0
"""Less than `reporting.INTERVAL_SECONDS`, after which a pod is told again."""
MANY = 8
"""So many urgent writes under way at once: a queue is being worked off."""
CALM_SECONDS = 0.5
PAUSE_SECONDS = 0.1
IN_FLIGHT = 16

Work = Callable[[], Coroutine[Any, Any, None]]


class Urgency:
    """Counts urgent writes while they are under way. `clock`: seconds, by one that never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._count = 0
        self._many_at = -math.inf

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """One more for the block."""
        self._count += 1
        if self._count >= MANY:
            self._many_at = self._clock()
        try:
            yield
        finally:
            self._count -= 1

    def many(self) -> bool:
        """Return whether a queue is being worked off, or was a moment ago."""
        return self._count >= MANY or self._clock() - self._many_at < CALM_SECONDS


class Later:
    """Does work in order, so many at a time.

    Args:
        urgency: what goes first.
        clock: seconds, by one that never goes back.
    """

    def __init__(self, urgency: Urgency, clock: Callable[[], float]) -> None:
        self._urgency, self._clock = urgency, clock
        self._waiting: deque[tuple[float, Work]] = deque()
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._drain: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, work: Work, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Begin the work, by `start`, when it is time."""
        self._waiting.append((self._clock(), work))
        if self._drain is None or self._drain.done():
            self._drain = asyncio.ensure_future(self._run(start))

    async def stop(self) -> None:
        """Forget what has not begun."""
        self._waiting.clear()
        if self._drain is not None:
            self._drain.cancel()
            await asyncio.wait({self._drain})

    async def _run(self, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        while self._waiting:
            since, work = self._waiting[0]
            if self._urgency.many() and self._clock() - since < MAX_DELAY_SECONDS:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            await self._slots.acquire()
            self._waiting.popleft()
            start(self._releasing(work))

    async def _releasing(self, work: Work) -> None:
        try:
            await work()
        finally:
            self._slots.release()
