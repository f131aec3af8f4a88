"""Times at which something is due, asked often and seldom reached. Times are by a clock that never goes back."""

import math
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass
class Deadlines(Generic[K]):
    """One time for each key.

    Attributes:
        at: the times.
    """

    at: dict[K, float] = field(default_factory=dict)
    _next: float = math.inf

    def put(self, key: K, at: float) -> None:
        """Set the time of a key."""
        self.at[key] = at
        self._next = min(self._next, at)

    def drop(self, key: K) -> None:
        """Forget a key."""
        self.at.pop(key, None)

    def due(self, *, now: float) -> list[K]:
        """Forget the keys whose time has come, and return them."""
        if now < self._next:
            return []
        found = [key for key, at in self.at.items() if at <= now]
        for key in found:
            del self.at[key]
        self._next = min(self.at.values(), default=math.inf)
        return found
