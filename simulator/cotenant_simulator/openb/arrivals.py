"""In which order the published runs let pods arrive, and in which order nodes win ties, for a seed. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cotenant_simulator.openb import gorandom, trace

LOAD: Final = 1.3
"""GPU demand that arrives, as a multiple of the cluster's GPUs."""

_DRAWS_BEFORE_NODES: Final = 10
"""Numbers that the published program spends between pods and nodes: found by comparing curves, not read."""


class Order(NamedTuple):
    """What a seed decides.

    Attributes:
        pods: the arrivals; a pod that was drawn again is there again.
        nodes: in the order in which they win ties.
    """

    pods: tuple[trace.Pod, ...]
    nodes: tuple[trace.Node, ...]


def order(read: trace.Trace, *, seed: int) -> Order:
    """Return the arrivals and the order of nodes.

    Pods in the order of their names are shuffled, then drawn again with replacement until the demand is `LOAD` times
    the cluster (or dropped where it is more already); the draw that would exceed it ends the list.
    """
    random = gorandom.GoRandom(seed)
    random.int63()  # the published program prints one
    pods = list(read.pods)
    random.shuffle(pods)
    excess = sum(pod.demand_milli for pod in pods) - LOAD * read.capacity_milli
    if excess > 0:
        _drop(pods, excess, random)
    else:
        pods += _drawn_again(read.pods, -excess, random)
    for _ in range(_DRAWS_BEFORE_NODES):
        random.int63()
    return Order(tuple(pods), _ranked(read.nodes, random))


def _drop(pods: list[trace.Pod], excess: float, random: gorandom.GoRandom) -> None:
    while excess > 0:
        excess -= pods.pop(random.below(len(pods))).demand_milli


def _drawn_again(pods: Sequence[trace.Pod], missing: float, random: gorandom.GoRandom) -> Iterator[trace.Pod]:
    while True:
        pod = pods[random.below(len(pods))]
        if pod.milli > missing:  # one GPU's demand, also where it asks for several: as published
            return
        missing -= pod.demand_milli
        yield pod


def _ranked(nodes: Sequence[trace.Node], random: gorandom.GoRandom) -> tuple[trace.Node, ...]:
    ranks = random.permutation(len(nodes))
    return tuple(node for _, node in sorted(zip(ranks, nodes, strict=True), key=lambda ranked: ranked[0]))
