"""What lists of times say: distributions, steps within a window, slowdown, noise. Pure; standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Span = Sequence[float]
"""Begin and end of a step, in seconds of one clock."""


def distribution(values: Sequence[float]) -> dict[str, float] | None:
    """Mean, p50, p99 and standard deviation, in the unit of the values; none of an empty list."""
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
    return {
        "mean": mean,
        "p50": percentile(values, 50),
        "p99": percentile(values, 99),
        "std": math.sqrt(variance),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear between the two nearest of the sorted values."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def milliseconds_within(spans: Iterable[Span], begin: float, end: float) -> list[float]:
    """Durations of the steps that lie wholly within the window."""
    return [1000 * (b - a) for a, b in spans if a >= begin and b <= end]


def steps_within(spans: Iterable[Span], begin: float, end: float) -> float:
    """Return how many steps the window holds; a step that reaches over an edge counts by the part inside."""
    return math.fsum(_overlap(a, b, begin, end) for a, b in spans)


def covers(spans: Sequence[Span], begin: float, end: float) -> bool:
    """Return whether the job ran from before the window to behind it: only then did all tenants overlap throughout."""
    return bool(spans) and spans[0][0] <= begin and spans[-1][1] >= end


def slowdown(together_seconds: float, alone_seconds: float) -> float:
    """`(T_colo - T_solo) / T_solo` of the times of a step."""
    return (together_seconds - alone_seconds) / alone_seconds


def noise_floor(repeats: Iterable[Sequence[float]]) -> dict[str, float] | None:
    """Median and greatest relative standard deviation over groups of repeats of the same run; none without repeats."""
    found = []
    for values in repeats:
        if len(values) > 1:
            mean = math.fsum(values) / len(values)
            spread = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
            found.append(math.sqrt(spread) / mean)
    return {"median": percentile(found, 50), "max": max(found), "groups": len(found)} if found else None


def _overlap(a: float, b: float, begin: float, end: float) -> float:
    inside = min(b, end) - max(a, begin)
    return max(0.0, inside) / (b - a) if b > a else float(begin <= a <= end)
