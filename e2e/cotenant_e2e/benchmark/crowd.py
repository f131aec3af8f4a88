"""A cluster that is full, and what waits for it: gangs, aged jobs, jobs that preempt, small jobs. Pure.

Each GPU has one tenant. On a few nodes it leaves room for a small job and is expected to end; there GPUs are held for
the gangs that have waited longest.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from cotenant_api import names
from cotenant_api.names import NodeName
from cotenant_e2e.benchmark import objects, world
from cotenant_e2e.client import Json

GANG: Final = 64
SHORT_NODES: Final = 16
FULL: Final = 90
SHORT: Final = 80
"""Hundredths of tenants on `SHORT_NODES`: they leave room for the small."""
BEGUN: Final = dt.datetime(2026, 1, 1, 0, 0, 10, tzinfo=dt.UTC)
LEFT_SECONDS: Final = 7200
"""Until tenants on `SHORT_NODES` end."""
FIRST: Final = 10**6
"""Number of the first pod that waits."""
WORDS: Final = (
    f"a tenant on each GPU, and two pods a node that wait: 30 gangs of {GANG}, 4 of them of a higher priority, as 500 "
    "others; single pods for held GPUs, small ones, and the rest for whole GPUs"
)


def pods(nodes: Sequence[NodeName], *, now: dt.datetime) -> Iterator[Json]:
    """Those that run, and two for each node that wait."""
    for number in range(len(nodes) * objects.GPUS_PER_NODE):
        yield tenant(number, nodes, now=now)
    for number, wanted in zip(range(2 * len(nodes)), _wanted(now), strict=False):
        yield _waiting(FIRST + number, wanted)


def tenant(number: int, nodes: Sequence[NodeName], *, now: dt.datetime, ended: bool = False) -> Json:
    """Return a pod that runs, or that has succeeded now."""
    short = number % len(nodes) >= len(nodes) - SHORT_NODES
    share, found = SHORT if short else FULL, world.placed_pod(number, nodes)
    _size(found, share=share)
    notes = found["metadata"]["annotations"]
    placement = orjson.loads(notes[names.PLACEMENT])
    placement["gpus"][0] |= {"share": share, "activeThreadPercentage": share, "memoryMiB": 1000}
    notes[names.PLACEMENT] = orjson.dumps(placement).decode()
    if short:
        found["spec"]["activeDeadlineSeconds"] = int((now - BEGUN).total_seconds()) + LEFT_SECONDS
    if ended:
        found["metadata"]["resourceVersion"] = str(10 * FIRST + number)
        found["status"]["phase"] = "Succeeded"
    return found


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What a pod asks for; without `created` it has waited too long."""

    share: int
    priority: int = 0
    gang: str = ""
    cpu: str = "1"
    created: str = "2026-01-01T00:00:00Z"


def _wanted(now: dt.datetime) -> Iterator[_Wanted]:
    fresh = world.timestamp(now - dt.timedelta(minutes=20))
    for share, count, priority in ((100, 16, 0), (60, 4, 1000), (5, 10, 0)):
        for number in range(count * GANG):
            yield _Wanted(share=share, priority=priority, gang=f"of-{share}-{number // GANG}")
    yield from (_Wanted(share=100, priority=500) for _ in range(500))
    yield from (_Wanted(share=100 - SHORT, cpu=f"{100 + number % 50}m") for number in range(1000))
    yield from (_Wanted(share=3 + number % 5, created=fresh) for number in range(2000))
    while True:
        yield _Wanted(share=100, created=fresh)


def _waiting(number: int, wanted: _Wanted) -> Json:
    found = world.gated_pod(number, share=wanted.share)
    _size(found, share=wanted.share, cpu=wanted.cpu)
    found["metadata"]["creationTimestamp"] = wanted.created
    found["spec"]["priority"] = wanted.priority
    if wanted.gang:
        note = {"v": 1, "name": wanted.gang, "size": GANG, "acrossControllers": True}
        found["metadata"]["annotations"][names.GANG] = orjson.dumps(note).decode()
    return found


def _size(pod: Json, *, share: int, cpu: str = "1") -> None:
    """Set what a pod asks for; nothing is predicted of it."""
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"][names.GPU_SHARE] = str(share)
    resources["requests"]["cpu"] = cpu
    del pod["metadata"]["annotations"][names.PREDICTION]
