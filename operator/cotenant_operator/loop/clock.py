"""The two times that the loop asks for."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Clock:
    """`now`: the time of day, in UTC; `monotonic`: seconds that only grow."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]
