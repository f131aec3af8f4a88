"""What the extender's work takes: in virtual time a pass takes none, and none would ever be cut.

In half of the worlds each look at the stopwatch by which the leader judges its turns may find some time gone, by the
seed. It runs ahead of virtual time by that, and waits for it: as long a pause follows each pass.
"""

import random
from collections.abc import Callable
from typing import Final

from cotenant_extender import service

STEPS: Final = (0.0, 0.0, 0.002, 0.02)
"""What a step takes on the average, in seconds; a pass may take 0.025. Of worlds as many have each."""
PART: Final = 0.5
"""Of the looks, how many find time gone."""


class Stopwatch:
    """A stopwatch that goes on while it is looked at."""

    def __init__(self, clock: Callable[[], float], rng: random.Random, *, step: float) -> None:
        self._clock, self._rng, self._step = clock, rng, step
        self._shown = 0.0

    def __call__(self) -> float:
        """Return seconds since any time."""
        gone = self._rng.expovariate(1.0 / self._step) if self._rng.random() < PART else 0.0
        self._shown = max(self._shown, self._clock()) + gone
        return self._shown


def take_time(extender: service.Extender, clock: Callable[[], float], rng: random.Random, *, step: float) -> None:
    """Let the work of an extender's leader take so much a step; 0: none."""
    if step:
        extender.leader._stopwatch = Stopwatch(clock, rng, step=step)
