"""The time that everything is decided by: seconds since the epoch that pass evenly. Pure; both clocks are parameters.

A wall clock may be set, forth or back, by any amount. Intervals must not feel that, and what the API server wrote can
only be compared with a wall clock. So the wall clock is read once, and carried on by a clock that never goes back.
When the two differ by more than `TOLERANCE_SECONDS`, the wall clock was set: whoever remembers times begins anew.
"""

from collections.abc import Callable
from typing import Final

TOLERANCE_SECONDS: Final = 1.0
"""A clock that is slewed, as time synchronisation does mostly, takes both along. It is set for more than this."""

Clock = Callable[[], float]


class Timeline:
    """One line of time.

    Args:
        wall: seconds since the epoch.
        stopwatch: seconds since any time, by a clock that never goes back.
    """

    def __init__(self, wall: Clock, stopwatch: Clock) -> None:
        self._wall, self._stopwatch = wall, stopwatch
        self._offset = wall() - stopwatch()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._stopwatch() + self._offset

    def latest(self) -> float:
        """Return the later of both times: what has expired by either has expired.

        A machine that was asleep may wake with its wall clock set and the other one where it stood.
        """
        return max(self.now(), self._wall())

    def follow(self) -> float:
        """Take over the time of a wall clock that was set; return by how many seconds it was, 0.0: it was not."""
        by = self._wall() - self.now()
        if abs(by) <= TOLERANCE_SECONDS:
            return 0.0
        self._offset += by
        return by
