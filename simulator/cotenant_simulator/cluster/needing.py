"""The fewest GPUs on which nobody waits: the same jobs on smaller and larger clusters of the same mix. Pure.

Nodes are taken one by one so that each part has the cluster's mix of GPU models, and the last of them GPU by GPU; where
the cluster is too small, copies of it follow. Bisection: that more GPUs never make anybody wait is assumed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from cotenant_api.names import GPUUID, NodeName
from cotenant_extender.packing import policies
from cotenant_simulator.engine import interference, jobs, ways, world
from cotenant_simulator.twin import sites

_COPIES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What is run again and again."""

    jobs: Sequence[jobs.Job]
    way: ways.Way
    policy: policies.InForce
    speeds: interference.Interference


class _SomebodyWaitsError(Exception):
    """Ends a run early."""


def fewest(of: Replay, nodes: Sequence[sites.Node]) -> int | None:
    """How many GPUs; 0 without jobs, None where not even many clusters would be enough."""
    if not of.jobs:
        return 0
    if not nodes:
        return None
    order, copies = mixed(nodes), 1
    while not suffices(of, extended(order, copies)):
        if copies >= _COPIES:
            return None
        copies *= 2
    whole = extended(order, copies)
    low, high = 0, sum(len(node.gpus) for node in whole)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(of, first(whole, middle)) else (middle, high)
    return high


def suffices(of: Replay, nodes: Sequence[sites.Node]) -> bool:
    """Whether everybody starts at once."""
    made = world.World(nodes, of.jobs, way=of.way, policy=of.policy, speeds=of.speeds)

    def look(_ended: int) -> None:
        if made.history.moments and made.history.moments[-1].waiting:
            raise _SomebodyWaitsError

    try:
        made.run(look)
    except _SomebodyWaitsError:
        return False
    return True


def mixed(nodes: Sequence[sites.Node]) -> list[sites.Node]:
    """The nodes so that each first part of them has the mix of GPU models of all."""
    total = Counter(node.gpus[0].model for node in nodes)
    seen: Counter[str] = Counter()
    ranked = []
    for node in nodes:
        model = node.gpus[0].model
        seen[model] += 1
        ranked.append((seen[model] / total[model], model, node.name, node))
    return [node for *_, node in sorted(ranked, key=lambda one: one[:3])]


def extended(nodes: Sequence[sites.Node], copies: int) -> list[sites.Node]:
    """So many clusters beside each other."""
    return [_copy(node, number) if number else node for number in range(copies) for node in nodes]


def first(nodes: Sequence[sites.Node], gpus: int) -> list[sites.Node]:
    """The first so many GPUs, with their nodes."""
    found = []
    for node in nodes:
        if gpus <= 0:
            break
        found.append(node if len(node.gpus) <= gpus else replace(node, gpus=node.gpus[:gpus]))
        gpus -= len(node.gpus)
    return found


def _copy(node: sites.Node, number: int) -> sites.Node:
    return replace(
        node,
        name=NodeName(f"{node.name}+{number}"),
        gpus=tuple(replace(gpu, uuid=GPUUID(f"{gpu.uuid}+{number}")) for gpu in node.gpus),
    )
