"""How long requests take: what is asked, and the figures of many. Pure."""

import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cotenant_e2e.benchmark import objects


class Asked(enum.StrEnum):
    """The pod that filter is asked about."""

    EARMARKED = "is earmarked"
    FITS = "fits"
    NOWHERE = "fits nowhere"

    @property
    def share(self) -> int:
        """Hundredths that it asks for."""
        return 100 * 2 * objects.GPUS_PER_NODE if self is Asked.NOWHERE else objects.SHARE


@dataclass(frozen=True)
class Times:
    """Of one kind of request, in milliseconds."""

    what: Asked
    candidates: int
    median_milliseconds: float
    p99_milliseconds: float

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "pod": self.what,
            "candidates": self.candidates,
            "medianMilliseconds": round(self.median_milliseconds, 3),
            "p99Milliseconds": round(self.p99_milliseconds, 3),
        }


def of(what: Asked, candidates: int, milliseconds: Sequence[float]) -> Times:
    """Median and 99th percentile, without the first tenth."""
    warm = sorted(milliseconds[len(milliseconds) // 10 :])
    return Times(what, candidates, statistics.median(warm), warm[int(0.99 * (len(warm) - 1))])
