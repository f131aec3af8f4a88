"""How often a source may do what costs somebody else something: token buckets. Pure."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """`burst` at once, and `per_second` after that."""

    burst: int
    per_second: float


class Buckets:
    """A bucket for each source.

    Args:
        sources: so many are remembered; the one that came longest ago is forgotten first.
    """

    def __init__(self, rate: Rate, *, sources: int) -> None:
        self._rate, self._sources = rate, sources
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, source: Hashable, now: float) -> bool:
        """Take one, `now` in seconds; return whether there was one."""
        level, since = self._levels.pop(source, (float(self._rate.burst), now))
        level = min(float(self._rate.burst), level + (now - since) * self._rate.per_second)
        taken = level >= 1
        self._levels[source] = (level - 1 if taken else level, now)
        while len(self._levels) > self._sources:
            self._levels.popitem(last=False)
        return taken

    def __len__(self) -> int:
        """Return how many sources are remembered."""
        return len(self._levels)
