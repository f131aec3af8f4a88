"""As many pods as kubelet takes, at once, with a share and without; what the agent takes meanwhile and after."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cotenant_e2e.benchmark.node import calls, pods
from cotenant_e2e.benchmark.node.place import Place
from cotenant_e2e.benchmark.node.weight import Weight

PODS: Final = 110
"""kubelet's `maxPods`, by default."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What the agent took for a while. `rss_mib`: at the end; `peak_mib`: since the agent's start."""

    seconds: float
    cpu_seconds: float
    programs_seconds: float
    rss_mib: float
    peak_mib: float

    @property
    def cpu_percent(self) -> float:
        """Of one core."""
        return 100 * self.cpu_seconds / self.seconds


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """One round.

    Attributes:
        shared_seconds, plain_seconds: from the first creation until the last container's first output.
        calls: of kubelet to the agent.
        busy: the agent while the pods came.
        idle: while they ran and nothing changed.
    """

    pods: int
    shared_seconds: float
    plain_seconds: float
    calls: Mapping[calls.Key, calls.Calls]
    busy: Usage
    idle: Usage


def measure(where: Place, *, count: int, idle_seconds: float, report: Callable[[str], None]) -> Crowd:
    """One round; nothing is left of it."""
    before, began = where.read_calls(), time.monotonic()
    at_first = where.weigh()
    shared = _seconds(where, count, shared=True)
    busy = _usage(at_first, where.weigh(), time.monotonic() - began)
    made = calls.between(before, where.read_calls())
    report(f"{count} pods with a share: {shared:.1f} s")
    where.wait_until_told(count)
    idle = rest(where, idle_seconds)
    where.clear()
    where.wait_until_forgotten()
    plain = _seconds(where, count, shared=False)
    report(f"{count} pods without: {plain:.1f} s")
    where.clear()
    return Crowd(pods=count, shared_seconds=shared, plain_seconds=plain, calls=made, busy=busy, idle=idle)


def rest(where: Place, seconds: float, pause: Callable[[float], None] = time.sleep) -> Usage:
    """Return what the agent takes while nothing happens."""
    before, began = where.weigh(), time.monotonic()
    pause(seconds)
    return _usage(before, where.weigh(), time.monotonic() - began)


def _seconds(where: Place, count: int, *, shared: bool) -> float:
    began = time.time()
    created = where.create([pods.pod(number, shared=shared, stays=True) for number in range(count)])
    return where.wait_until_begun(created) - began


def _usage(before: Weight, after: Weight, seconds: float) -> Usage:
    return Usage(
        seconds=seconds,
        cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        programs_seconds=after.programs_seconds - before.programs_seconds,
        rss_mib=after.rss_mib,
        peak_mib=after.peak_mib,
    )
