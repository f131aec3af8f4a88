"""What a soak measured. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cotenant_e2e.hostile.honest import Wait


@dataclass(frozen=True, kw_only=True)
class Waits:
    """How long honest jobs waited, in the order of their requests.

    Attributes:
        dljobs: jobs of ours.
        plain: Jobs of Kubernetes, which ask for no share.
        failed: DLJobs that were not bound within two minutes.
        plain_failed: the same of Jobs of Kubernetes.
    """

    dljobs: tuple[Wait, ...]
    plain: tuple[Wait, ...]
    failed: int = 0
    plain_failed: int = 0


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What the hostile namespace sent.

    Attributes:
        taken: by kind, what the API server took.
        refused: by kind, what it refused.
        unanswered: what it did not answer.
        halves: half requests to our listeners.
    """

    taken: Mapping[str, int]
    refused: Mapping[str, int]
    unanswered: int = 0
    halves: int = 0


@dataclass(frozen=True, kw_only=True)
class Soaked:
    """What was measured.

    Attributes:
        minutes: of the hostile part; the honest part alone took a tenth of it.
        rate: attacks a second, at most.
        alone: waits of the honest part alone.
        beside: waits beside the hostile namespace.
        sent: what the hostile namespace sent.
        peaks_mib: by process, the most that the process held with its descendants.
        limits_mib: by process that the chart deploys, its memory limit there.
        ends: by process, how often it ended, and was started again.
    """

    minutes: float
    rate: float
    alone: Waits
    beside: Waits
    sent: Sent
    peaks_mib: Mapping[str, float]
    limits_mib: Mapping[str, float]
    ends: Mapping[str, int]

    @property
    def ratio(self) -> float:
        """Return how many times as long the median DLJob waited beside the hostile namespace; infinite for none."""
        if not (self.alone.dljobs and self.beside.dljobs):
            return math.inf
        return median(self.beside.dljobs) / median(self.alone.dljobs)

    def to_object(self) -> Mapping[str, Any]:
        """Return everything as JSON object."""
        return {"v": 2, **asdict(self)}


def median(waits: tuple[Wait, ...]) -> float:
    """Return the median of the seconds until a pod was bound."""
    return statistics.median(wait.bound for wait in waits)


def nine_of_ten(seconds: Sequence[float]) -> float:
    """Return what nine of ten took at most."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) * 9 // 10, len(ordered) - 1)]


def together(parts: Sequence[Waits]) -> Waits:
    """Return the waits of several parts as one."""
    return Waits(
        dljobs=tuple(wait for part in parts for wait in part.dljobs),
        plain=tuple(wait for part in parts for wait in part.plain),
        failed=sum(part.failed for part in parts),
        plain_failed=sum(part.plain_failed for part in parts),
    )
