"""Waiting for conditions, always with a deadline. Knows nothing of Kubernetes or processes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cotenant_api import errors

T = TypeVar("T")


class NotReadyError(errors.CotenantError):
    """A condition did not come true in time, or what should make it true has ended."""


@dataclass(frozen=True)
class Clock:
    """Where the time comes from. `now`: monotonic seconds; `pause`: returns after that many seconds."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


def wait_until(
    condition: Callable[[], T],
    what: str,
    seconds: float = 60,
    *,
    every_seconds: float = 0.05,
    clock: Clock = Clock(),
) -> T:
    """Return the first true value of the condition, tried at once and then every `every_seconds`.

    Errors of the condition pass through: they end the waiting.

    Raises:
        NotReadyError: it was never true within `seconds`; the message names `what`.
    """
    deadline = clock.now() + seconds
    while not (value := condition()):
        if clock.now() >= deadline:
            raise NotReadyError(f"not within {seconds:g} s: {what}")
        clock.pause(every_seconds)
    return value
