"""Bindings and lifts that arrive at the worst moment.

A Binding: when its sender counts it no longer, or when another extender serves. A lift: when another has marked its
pod.

A random delay seldom hits that moment. Nothing stops a real network from doing so.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import orjson

from cotenant_extender.kube import transport
from simulation import hosts, marks, network

LOOK_SECONDS = 0.1
LONGEST_SECONDS = 200.0
"""Whatever was not delivered by then never is."""


class World(Protocol):
    """What latecomers need of the world."""

    network: network.Network
    marks: marks.Marks

    @property
    def hosts(self) -> Sequence[hosts.Host]:
        """Hosts of the control plane."""

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later."""

    def clock(self) -> float:
        """Seconds since the epoch."""


class Latecomers:
    """Delivers what the network withholds."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[int, float] = {}

    def look(self) -> None:
        """Deliver whatever its moment has come for, again and again."""
        withheld, now = self._world.network.withheld, self._world.clock()
        for item in list(withheld):
            since = self._since.setdefault(id(item), now)
            if self._due(*item):
                withheld.remove(item)
                item.link.deliver(item.request)
            elif now - since > LONGEST_SECONDS:
                withheld.remove(item)
        self._world.later(LOOK_SECONDS, self.look)

    def _due(self, sender: network.Link, request: transport.Request) -> bool:
        """Return whether a request would do the most harm now."""
        if request.method == "PATCH":
            return self._world.marks.overtaken(request)
        uid = orjson.loads(request.body or b"{}")["metadata"]["uid"]
        for host in self._world.hosts:
            extender, process = host.extender, host.extender_process
            if extender is None or process is None or not process.alive or process.paused:
                continue
            if host.extender_link is sender:
                if uid in extender.ledger.claims:
                    continue
                return True
            if extender.serving():
                return True
        return False
