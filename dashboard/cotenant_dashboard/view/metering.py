"""Share-hours by namespace: what was allotted and what was used, while somebody counted. Pure.

Allotted is what is booked, times time. Used is the utilization of GPUs, times time, where all pods on the GPU are of
one namespace and no other process is there: of other GPUs nobody can say whose work it was. How much of what was
allotted that covers is told beside it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_cli.reading import objects
from cotenant_cli.views import usage

SECONDS_PER_HOUR: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a namespace has at a time.

    Attributes:
        booked_share: hundredths of a GPU.
        known_share: those of it that are on GPUs whose utilization is the namespace's own.
        used_share: that utilization, in hundredths of a GPU.
        pods: that hold a part of a GPU.
    """

    booked_share: int = 0
    known_share: int = 0
    used_share: int = 0
    pods: int = 0

    def __add__(self, other: "Rates") -> "Rates":
        return Rates(
            booked_share=self.booked_share + other.booked_share,
            known_share=self.known_share + other.known_share,
            used_share=self.used_share + other.used_share,
            pods=self.pods + other.pods,
        )


def rates(pods: Iterable[objects.Pod], gpus: Iterable[usage.GPU]) -> Mapping[str, Rates]:
    """Of one node, by namespace."""
    found: dict[str, Rates] = defaultdict(Rates)
    for pod in pods:
        booked = usage.bookings(pod)
        if booked:
            found[pod.namespace] += Rates(booked_share=sum(one.share for one in booked), pods=1)
    for gpu in gpus:
        namespaces = {tenant.namespace for tenant in gpu.tenants}
        if gpu.utilization_percent is not None and len(namespaces) == 1 and not gpu.foreign_processes:
            found[namespaces.pop()] += Rates(known_share=gpu.booked_share, used_share=gpu.utilization_percent)
    return found


def total(nodes: Iterable[Mapping[str, Rates]]) -> Mapping[str, Rates]:
    """Of all nodes."""
    found: dict[str, Rates] = defaultdict(Rates)
    for one in nodes:
        for namespace, rate in one.items():
            found[namespace] += rate
    return found


@dataclass(slots=True)
class _Sums:
    booked: float = 0.0
    known: float = 0.0
    used: float = 0.0


class Meter:
    """Adds up.

    Attributes:
        counted_seconds: for how long it has.
    """

    def __init__(self) -> None:
        self.counted_seconds = 0.0
        self._sums: dict[str, _Sums] = defaultdict(_Sums)

    def advance(self, rates: Mapping[str, Rates], seconds: float) -> None:
        """So many seconds passed, with these rates all along."""
        self.counted_seconds += seconds
        for namespace, rate in rates.items():
            sums = self._sums[namespace]
            sums.booked += rate.booked_share * seconds
            sums.known += rate.known_share * seconds
            sums.used += rate.used_share * seconds

    def rows(self, rates: Mapping[str, Rates]) -> list[dict[str, Any]]:
        """For people, in share-hours: a row for each namespace that has, or had, a part of a GPU."""
        return [
            {
                "namespace": namespace,
                "bookedShare": rates.get(namespace, Rates()).booked_share,
                "pods": rates.get(namespace, Rates()).pods,
                "allottedShareHours": round(sums.booked / SECONDS_PER_HOUR, 2),
                "usedShareHours": round(sums.used / SECONDS_PER_HOUR, 2) if sums.known else None,
                "knownPercent": round(100 * sums.known / sums.booked) if sums.booked else None,
            }
            for namespace, sums in ((name, self._sums[name]) for name in sorted({*self._sums, *rates}))
        ]

    def seconds(self) -> Mapping[str, tuple[float, float]]:
        """For programs, by namespace: share-seconds used, and those allotted of which it is known."""
        return {name: (one.used, one.known) for name, one in sorted(self._sums.items())}
