"""Pods that start one at a time, with a share and without in turns: what a share adds to a start."""

from collections.abc import Callable
from dataclasses import dataclass

from cotenant_e2e.benchmark import bindings
from cotenant_e2e.benchmark.node import calls, place, pods
from cotenant_e2e.benchmark.node.place import Place

SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Start:
    """One pod.

    Attributes:
        seconds: from its binding, as a watch saw it, until containerd had its container's first output.
        call_seconds: what the agent took for each of kubelet's calls that it granted; empty without a share.
        refused: calls that kubelet had to make again, of each.
    """

    seconds: float
    call_seconds: dict[str, float]
    refused: dict[str, int]


@dataclass(frozen=True)
class Pair:
    """Two starts, one after the other."""

    shared: Start
    plain: Start


def measure(where: Place, *, pairs: int, report: Callable[[str], None]) -> list[Pair]:
    """So many pairs; nothing is left of them. The first pair is for warming up and does not count."""
    found = []
    for number in range(pairs + 1):
        pair = Pair(_start(where, shared=True), _start(where, shared=False))
        report(
            f"pair {number} of {pairs}: {pair.shared.seconds:.2f} s with a share, {pair.plain.seconds:.2f} s without"
        )
        found.append(pair)
    where.wait_until_forgotten()
    return found[1:]


def _start(where: Place, *, shared: bool) -> Start:
    before = where.read_calls()
    with bindings.Bindings(where.cluster.client, place.NAMESPACE) as bound:
        created = where.create([pods.pod(0, shared=shared, stays=False)])
        bound.wait(1, SECONDS)
        began = where.wait_until_begun(created)
        seconds = began - place.unix_seconds(bound.times[0])
    made = calls.between(before, where.read_calls())
    where.clear()
    granted = {name: made.get((name, calls.OK), calls.Calls()) for name in calls.METHODS}
    return Start(
        seconds=seconds,
        call_seconds={name: each.seconds for name, each in granted.items() if each.count == 1},
        refused={name: calls.refused(made, name) for name in calls.METHODS},
    )
