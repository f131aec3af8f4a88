"""The fewest GPUs on which nobody waits: the same jobs on smaller clusters, or on larger ones. Pure.

One GPU model after another, the one with the least memory first, loses GPUs by bisection; where the cluster is not
enough, copies of it stand beside it before. That more GPUs never make anybody wait is assumed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cotenant_api.names import GPUUID, GPUModel, NodeName
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


def fewest(of: Replay, nodes: Sequence[sites.Node]) -> Mapping[GPUModel, int] | None:
    """Return how many GPUs of each model; None where not even many such clusters would be enough."""
    copies = 1
    while not suffices(of, extended(nodes, copies)):
        if copies >= _COPIES or not nodes:
            return None
        copies *= 2
    whole = extended(nodes, copies)
    counts = Counter(gpu.model for node in whole for gpu in node.gpus)
    memory = {gpu.model: gpu.memory_mib for node in nodes for gpu in node.gpus}
    for model in sorted(counts, key=lambda one: (memory[one], one)):
        low, high = -1, counts[model]
        while high - low > 1:
            counts[model] = (low + high) // 2
            low, high = (low, counts[model]) if suffices(of, first(whole, counts)) else (counts[model], high)
        counts[model] = high
    return dict(sorted(counts.items()))


def suffices(of: Replay, nodes: Sequence[sites.Node]) -> bool:
    """Return whether everybody starts at once."""
    if not nodes or not of.jobs:
        return not of.jobs
    made = world.World(nodes, of.jobs, way=of.way, policy=of.policy, speeds=of.speeds)

    def look(_ended: int) -> None:
        if made.history.moments and made.history.moments[-1].waiting:
            raise _SomebodyWaitsError

    try:
        made.run(look)
    except _SomebodyWaitsError:
        return False
    return True


def extended(nodes: Sequence[sites.Node], copies: int) -> list[sites.Node]:
    """So many clusters beside each other."""
    return [_copy(node, number) if number else node for number in range(copies) for node in nodes]


def first(nodes: Sequence[sites.Node], gpus: Mapping[GPUModel, int]) -> list[sites.Node]:
    """Return the first so many GPUs of each model, with their nodes."""
    left, found = dict(gpus), []
    for node in nodes:
        kept = []
        for gpu in node.gpus:
            if left[gpu.model] > 0:
                left[gpu.model] -= 1
                kept.append(gpu)
        if kept:
            found.append(replace(node, gpus=tuple(kept)))
    return found


def _copy(node: sites.Node, number: int) -> sites.Node:
    return replace(
        node,
        name=NodeName(f"{node.name}+{number}"),
        gpus=tuple(replace(gpu, uuid=GPUUID(f"{gpu.uuid}+{number}")) for gpu in node.gpus),
    )
