"""When a DLJob's status may be written, so that a thousand that change at once cost few requests.

No I/O and no clock: times are passed in, in seconds of any monotonic clock. Nothing here must be known after a restart.
"""

from typing import Final

from cotenant_operator.state.views import Key

LAZY_SECONDS: Final = 15.0
"""Least time between two writes of a status in which only figures, neighbours or words change."""
LAZY_SPACING_SECONDS: Final = 0.1
"""Between any two such writes of all DLJobs: a thousand whose places in the queue change are not more important than
those that are just coming."""
URGENT_SECONDS: Final = 1.0
"""Least time between two writes of any status: what comes in the same second, as of a gang's members, is one write."""


class Pace:
    """When each status was written, and whose turn is when.

    Args:
        urgent_seconds: least time between two writes of a status.
    """

    def __init__(self, *, urgent_seconds: float = URGENT_SECONDS) -> None:
        self._urgent_seconds = urgent_seconds
        self._written: dict[Key, float] = {}
        self._turns: dict[Key, float] = {}
        self._next_turn = 0.0

    def due(self, key: Key, now: float, *, urgent: bool) -> float:
        """From when on the status of a DLJob may be written."""
        last = self._written.get(key)
        if urgent:
            return now if last is None else last + self._urgent_seconds
        # It keeps its turn until it has written.
        if key not in self._turns:
            self._turns[key] = max(now if last is None else last + LAZY_SECONDS, self._next_turn)
            self._next_turn = self._turns[key] + LAZY_SPACING_SECONDS
        return self._turns[key]

    def wrote(self, key: Key, now: float) -> None:
        """Note that the status of a DLJob is written now."""
        self._written[key] = now
        self._turns.pop(key, None)

    def forget(self, key: Key) -> None:
        """There is no such DLJob any more."""
        self._written.pop(key, None)
        self._turns.pop(key, None)
