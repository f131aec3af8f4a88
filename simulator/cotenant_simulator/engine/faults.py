"""What breaks, when, and for how long: a schedule that is given, or drawn from a seed. Pure.

| fault | who loses the attempt | until it is repaired |
|---|---|---|
| GPU (hardware) | every tenant of it | the GPU is unhealthy, and takes nobody |
| Node | every tenant of its GPUs | its agent is not ready, and it takes nobody |
| Tenant | under MPS every tenant of the GPU; else the program's own alone | under MPS the GPU is unhealthy |

A tenant's is a fatal fault of its program, such as an illegal address. MPS contains none, and the agent calls the GPU
Suspect until its server and a canary have proved healthy. A tenant with the GPU to itself has no MPS server to break.
That is what docs/node-agent.md says. A gang ends when a pod of it does. What befalls a job is taken to pass:
it comes again, as often as it must, after the operator's delay (`restart_seconds`).
"""

import enum
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import errors
from cotenant_simulator.twin import sites

RESTART_SECONDS: Final = (10.0, 360.0)
"""First and longest time between attempts; doubled each time, as the operator does (`life/attempts.py`)."""


class What(enum.StrEnum):
    """What breaks."""

    GPU = "GPU"
    NODE = "Node"
    TENANT = "Tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One.

    Attributes:
        seconds: since the beginning.
        where: UUID of a GPU, or name of a node.
        repair_seconds: until it takes jobs again.
        lot: 0..1, of a tenant's fault: which of those who are there then. Where nobody is, nothing happens.
    """

    seconds: float
    what: What
    where: str
    repair_seconds: float
    lot: float = 0.0

    def __post_init__(self) -> None:
        for name in ("seconds", "repair_seconds"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise errors.InvalidInputError(f"fault of {self.what} {self.where}: {name}", value, "must be 0 or more")
        if not 0 <= self.lot < 1:
            raise errors.InvalidInputError(f"fault of {self.what} {self.where}: lot", self.lot, "must be 0 to below 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often one GPU, one node, or the tenants of one GPU fail.

    Attributes:
        mean_seconds_between: time between failures is exponential with this mean.
        repair_seconds: of each.
    """

    what: What
    mean_seconds_between: float
    repair_seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.mean_seconds_between < float("inf"):
            field = f"rate of faults of {self.what}: mean_seconds_between"
            raise errors.InvalidInputError(field, self.mean_seconds_between, "must be above 0")


def drawn(nodes: Sequence[sites.Node], rates: Sequence[Rate], *, until_seconds: float, seed: int) -> list[Fault]:
    """All faults up to a time, in order. Each GPU and node has draws of its own: the others' change none of them."""
    found = [
        fault
        for rate in rates
        for where in _places(nodes, rate.what)
        for fault in _at(where, rate, until_seconds, seed)
    ]
    return sorted(found, key=lambda fault: (fault.seconds, fault.what, fault.where))


def restart_seconds(count: int) -> float:
    """Return how long a job waits after the count-th attempt that ended for no want of its own."""
    first, longest = RESTART_SECONDS
    return min(first * 2.0 ** min(max(count - 1, 0), 16), longest)


def _places(nodes: Sequence[sites.Node], what: What) -> Iterator[str]:
    for node in nodes:
        if what is What.NODE:
            yield node.name
        else:
            yield from (gpu.uuid for gpu in node.gpus)


def _at(where: str, rate: Rate, until_seconds: float, seed: int) -> Iterator[Fault]:
    chance, now = random.Random(f"{rate.what} {where} {seed}"), 0.0  # noqa: S311 -- the same draw everywhere
    while True:
        now += chance.expovariate(1 / rate.mean_seconds_between)
        if now > until_seconds:
            return
        yield Fault(seconds=now, what=rate.what, where=where, repair_seconds=rate.repair_seconds, lot=chance.random())
