"""When requests come in. Pure: the caller gives the seed."""

from __future__ import annotations

import random

POISSON_LOAD = 0.5
"""Requests per second, as a share of what the job can answer alone."""


def poisson(count: int, *, requests_per_second: float, seed: int) -> list[float]:
    """Seconds from the start at which `count` requests arrive, independent of each other."""
    if requests_per_second <= 0:
        raise ValueError(f"requests_per_second {requests_per_second}: must be more than 0")
    generator = random.Random(seed)  # noqa: S311  # a load, not a secret
    found, now = [], 0.0
    for _ in range(count):
        now += generator.expovariate(requests_per_second)
        found.append(now)
    return found
