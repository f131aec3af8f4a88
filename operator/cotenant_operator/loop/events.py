"""Sends events without holding up anything else: one that fails is sent again later, and given up after some tries.

Nothing but events may wait here: a status, a deadline or a rollout never depends on whether events are taken.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from cotenant_api import errors
from cotenant_operator.plans import actions
from cotenant_operator.state.views import Key

_LOGGER = logging.getLogger(__name__)

SECONDS: Final = 5.0
"""How long one event may take while its DLJob waits."""
RETRY_SECONDS: Final = 30.0
TRIES: Final = 5
MOST: Final = 32
"""How many events of one DLJob are kept for later; the oldest are given up."""

Emit = Callable[[Key, actions.EmitEvent], Awaitable[None]]


@dataclass
class _Left:
    """The events of one DLJob that were not taken.

    Attributes:
        tries: how often it was tried to send them again.
        at: when the next try is due, in seconds of the clock.
    """

    at: float
    tries: int = 0
    events: list[actions.EmitEvent] = field(default_factory=list)


class Events:
    """Sends events of DLJobs, in order.

    Args:
        emit: sends one event. Raises TemporaryError where it was not taken.
        monotonic: seconds that only grow.
    """

    def __init__(self, emit: Emit, *, monotonic: Callable[[], float]) -> None:
        self._emit, self._monotonic = emit, monotonic
        self._left: dict[Key, _Left] = {}
        self._silent_until = -math.inf

    def due(self, key: Key) -> float | None:
        """Return when the next try for a DLJob is due; None where nothing is left."""
        left = self._left.get(key)
        return None if left is None else left.at

    def forget(self, key: Key) -> None:
        """Give up the events of a DLJob that is gone."""
        self._left.pop(key, None)

    async def send(self, key: Key, event: actions.EmitEvent) -> None:
        """Send an event now; keep it for later if it is not taken, or if earlier ones wait."""
        if key not in self._left and await self._is_taken(key, event):
            return
        left = self._left.setdefault(key, _Left(at=self._monotonic() + RETRY_SECONDS))
        left.events = [*left.events, event][-MOST:]

    async def send_again(self, key: Key) -> None:
        """Send what is left of a DLJob's events, if it is time."""
        left = self._left.get(key)
        if left is None or self._monotonic() < left.at:
            return
        while left.events:
            if not await self._is_taken(key, left.events[0]):
                left.tries += 1
                left.at = self._monotonic() + RETRY_SECONDS
                break
            left.events.pop(0)
        if left.events and left.tries < TRIES:
            return
        for event in left.events:
            _LOGGER.warning("%s: event %s is given up: %s", key, event.reason, event.message)
        self.forget(key)

    async def _is_taken(self, key: Key, event: actions.EmitEvent) -> bool:
        if self._monotonic() < self._silent_until:
            return False
        try:
            async with asyncio.timeout(SECONDS):
                await self._emit(key, event)
        except (errors.TemporaryError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                # Who asked next would wait as long, and his status with him.
                self._silent_until = self._monotonic() + RETRY_SECONDS / 2
            _LOGGER.warning("%s: event %s is sent again later: %s", key, event.reason, repr(error))
            return False
        return True
