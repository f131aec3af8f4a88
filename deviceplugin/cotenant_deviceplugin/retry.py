"""Trying again: temporary errors soon and ever later, permanent ones rarely, never giving up.

An agent outlives its API server, so even what is permanent today (a missing CRD, a missing role) is tried again.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from cotenant_api import errors
from cotenant_deviceplugin.clock import Clock

T = TypeVar("T")
Log = logging.Logger | logging.LoggerAdapter[logging.Logger]

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 10.0
PERMANENT_SECONDS = 30.0


@dataclass(frozen=True)
class Failure:
    """What fails now: how often in a row, and with which words."""

    attempts: int
    text: str


class Retry:
    """Tries again, and knows what fails at the moment.

    Args:
        clock: the time.
        rng: spreads the attempts of many agents.
        log: gets one line when something starts to fail, fails in another way, or works again.
    """

    def __init__(self, clock: Clock, rng: random.Random, log: Log) -> None:
        self.clock = clock
        self.log = log
        self._random = rng
        self._failing: dict[str, Failure] = {}

    def failing(self, *what: str) -> bool:
        """Return whether any of these fails at the moment."""
        return any(each in self._failing for each in what)

    async def until_done(self, what: str, action: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `action`, tried again on every error. `what` names it in the log."""
        while True:
            try:
                result = await action()
            except errors.CotenantError as error:
                await self.clock.sleep(self._failed(what, error))
            except Exception as error:
                # A fault of ours in one of its works ends no agent: tenants need the others.
                self.log.exception("%s: a fault of the agent", what)
                await self.clock.sleep(self._failed(what, errors.PermanentError(f"a fault of the agent: {error!r}")))
            else:
                self.working(what)
                return result

    def working(self, what: str) -> None:
        """Tell that something works: also what goes on for long and has not returned yet."""
        if self._failing.pop(what, None) is not None:
            self.log.info("%s: works again", what)

    def _failed(self, what: str, error: errors.CotenantError) -> float:
        """Note a failure; how long to wait, in seconds."""
        before = self._failing.get(what)
        attempts = before.attempts + 1 if before else 1
        self._failing[what] = Failure(attempts, str(error))
        if before is None or before.text != str(error):
            self.log.warning("%s: %s", what, error)
        return _delay(error, attempts) * (0.5 + self._random.random() / 2)


def _delay(error: errors.CotenantError, attempts: int) -> float:
    if not isinstance(error, errors.TemporaryError):
        return PERMANENT_SECONDS
    backoff: float = min(FIRST_SECONDS * 2.0 ** min(attempts - 1, 16), LONGEST_SECONDS)
    return max(backoff, error.delay_seconds)
