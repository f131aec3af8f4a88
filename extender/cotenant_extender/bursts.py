"""Writes in bursts: one alone begins at once; those that come within `SECONDS` of the last burst begin together.

An API server, etcd and everybody who watches commit, send and read many writes for little more than one: on a control
plane of few cores this is what decides how many pods are bound in a second.
"""

from collections.abc import Awaitable, Callable

SECONDS = 0.1


class Bursts:
    """Says when the next write begins.

    Args:
        clock: seconds, by one that never goes back.
        sleep: waits for so many seconds.
    """

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]) -> None:
        self._clock, self._sleep = clock, sleep
        self._next = clock()

    async def turn(self) -> None:
        """Return when a write may begin, `SECONDS` from now at most."""
        begins, now = self._next, self._clock()
        if now < begins:
            await self._sleep(begins - now)
        else:
            begins = now
        # Whoever of a burst wakes first says when the next one is.
        self._next = max(self._next, begins + SECONDS)
