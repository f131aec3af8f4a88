"""A device with a clock of its own, for tests and simulations: the same seed gives the same times."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from cotenant_runtime import graphs, layout
from cotenant_runtime.groups import Sample


@dataclass
class Virtual:
    """Launched work finishes one after the other; durations scatter around what was predicted."""

    seed: int = 0
    scatter: float = 0.1
    now_ns: int = 1_000_000_000
    name: str = "virtual"
    rates: graphs.Rates = field(
        default_factory=lambda: graphs.Rates(
            units=100, elements_per_unit=2048, flops_per_second=1e13, bytes_per_second=1e12, launch_seconds=5e-6
        )
    )
    _ends: list[tuple[int, int]] = field(default_factory=list)
    """End of each unfinished piece of work, and its predicted duration."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - no secret

    def clock(self) -> int:
        """Return the virtual time."""
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.now_ns += max(1, round(1e9 * seconds))

    def mark(self) -> int:
        """Return the end of what is launched so far; on an idle device that is now."""
        return max([self.now_ns, *(end for end, _ in self._ends[-1:])])

    def sample(self, begin: int, end: int) -> Sample | None:
        """Return the time between two marks."""
        return Sample(end - begin, layout.FULL_FILL) if end <= self.now_ns else None

    def launched(self, duration_ns: int) -> None:
        """Add work behind what is unfinished."""
        actual = round(duration_ns * (1 + self.scatter * (2 * self._random.random() - 1)))
        self._ends.append((self.mark() + actual, duration_ns))

    def unfinished_ns(self) -> int:
        """Return the predicted time of unfinished work."""
        self._ends = [one for one in self._ends if one[0] > self.now_ns]
        return sum(duration for _, duration in self._ends)

    def settle(self, at_most_ns: int) -> None:
        """Let virtual time pass until the rest is short enough."""
        while self.unfinished_ns() > at_most_ns:
            self.now_ns = self._ends[0][0]
