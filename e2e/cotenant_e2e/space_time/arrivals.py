"""When requests arrive. Pure and seeded."""

import enum
import random


class Arrivals(enum.StrEnum):
    """How requests follow each other."""

    FIXED = "Fixed rate"
    POISSON = "Poisson"


def times(kind: Arrivals, *, per_second: float, seconds: float, seed: int) -> list[float]:
    """Return the arrivals in seconds from the start, in order."""
    if kind is Arrivals.FIXED:
        return [number / per_second for number in range(int(seconds * per_second))]
    draw = random.Random(seed)  # noqa: S311 - no secret
    found = [draw.expovariate(per_second)]
    while found[-1] < seconds:
        found.append(found[-1] + draw.expovariate(per_second))
    return found[:-1]
