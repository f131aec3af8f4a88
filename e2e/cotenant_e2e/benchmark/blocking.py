"""For how long the extender's event loop does one thing, so that no request is answered: the longest time.

A whole extender in this process, on uvloop as in its own; the API server is in memory. Time is CPU time of the thread,
so that it depends little on what else the machine does. A turn of the event loop counts as a whole, with everything
that was ready. Its GPUs are simulated. The cluster is full (see `crowd`); under each placement some tenants end.
"""

import asyncio
import datetime as dt
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import uvloop

from cotenant_api import errors, names, packingpolicy
from cotenant_api.names import NodeName
from cotenant_e2e.benchmark import crowd, memory_server, objects, world
from cotenant_extender import feed, garbage, service

BAR_MILLISECONDS: Final = 50
SETTLE_SECONDS: Final = 3.0
"""For how long it is watched after the work is done: conditions and the ledger's recount follow."""
FIRST_SECONDS: Final = 15.0
"""The same at the beginning, when everything is looked at for the first time."""
ENDING: Final = 24
"""Tenants that end under each placement."""
BETWEEN_SECONDS: Final = 0.02
DEADLINE_SECONDS: Final = 180.0
RENEW_SECONDS: Final = 10.0
"""In which all agents renew their Leases."""
RENEWED: Final = 10
"""Leases that are renewed at once."""
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{names.RELEASE_NAMESPACE}/leases"
POLICY: Final = f"/apis/{names.API_VERSION}/packingpolicies"
CONDITIONS: Final = (
    "Longest turn: the longest CPU time of a turn of the event loop, in which nothing is answered. "
    f"The cluster has {crowd.WORDS}; agents renew their Leases. "
    f"Under each placement {ENDING} tenants end, one after the other. Bar: {BAR_MILLISECONDS} ms."
)


@dataclass(frozen=True)
class Blocks:
    """The longest turns of the event loop, in milliseconds.

    Attributes:
        lists: while lists are read.
        first_passes: in the first seconds of service.
        placements: from a change to each placement on.
        order: from a change of the queue's order on.
    """

    lists: float
    first_passes: float
    placements: Mapping[str, float]
    order: float

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object, in milliseconds."""
        placements = {name: round(value, 1) for name, value in self.placements.items()}
        single = {"lists": self.lists, "first_passes": self.first_passes, "order": self.order}
        return {key: round(value, 1) for key, value in single.items()} | {"placements": placements}


class Heart:
    """Beats once a turn of the event loop."""

    def __init__(self) -> None:
        self._longest = 0.0

    async def beat(self) -> None:
        """Until cancelled."""
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self._longest = max(self._longest, time.thread_time() - began)

    def longest_milliseconds(self) -> float:
        """Return the longest turn since this was asked last."""
        found, self._longest = 1e3 * self._longest, 0.0
        return found


def measure(nodes: int, *, now: dt.datetime) -> Blocks:
    """Start an extender, let it do what it can, change the policy."""
    pages = world.pages(world.Size(nodes, 0), now=world.timestamp(now))
    known = [NodeName(node["metadata"]["name"]) for node in objects.node_list(nodes)]
    pages["/api/v1/pods"] = world.encoded(crowd.pods(known, now=now))
    feed.shipped()
    garbage.look_in_short_turns()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_Cluster(memory_server.Server(pages), known, now).blocks())


class _Cluster:
    """An extender, and the API server that it sees."""

    def __init__(self, server: memory_server.Server, nodes: list[NodeName], now: dt.datetime) -> None:
        self._server, self._nodes, self._now = server, nodes, now
        self._extender = service.Extender(service.Settings(identity="", assume_leader=True), server)
        self._heart = Heart()
        self._generation, self._ended = 1, 0

    async def blocks(self) -> Blocks:
        """All of them."""
        heart = self._heart
        work = (self._extender.run(), self._renew(), heart.beat())
        tasks = [asyncio.create_task(one) for one in work]
        try:
            await _until(self._extender.serving)
            lists = heart.longest_milliseconds()
            await asyncio.sleep(FIRST_SECONDS)
            first = heart.longest_milliseconds()
            placements = {}
            for placement in packingpolicy.Placement:
                await self._change({"placement": str(placement)})
                placements[str(placement)] = heart.longest_milliseconds()
            await self._change({"queue": {"order": "FIFO"}})
            return Blocks(lists, first, placements, heart.longest_milliseconds())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _change(self, spec: Mapping[str, Any]) -> None:
        """Another policy; then some tenants end."""
        self._generation += 1
        version = str(self._generation)
        metadata = {"name": packingpolicy.NAME, "generation": self._generation, "resourceVersion": version}
        self._server.send(POLICY, {"type": "MODIFIED", "object": {"metadata": metadata, "spec": spec}})
        await _until(self._in_force)
        await asyncio.sleep(SETTLE_SECONDS)
        for _ in range(ENDING):
            self._ended += 1
            pod = crowd.tenant(self._ended, self._nodes, now=self._now, ended=True)
            self._server.send("/api/v1/pods", {"type": "MODIFIED", "object": pod})
            await asyncio.sleep(BETWEEN_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)

    async def _renew(self) -> None:
        """Renew all agents' Leases, some at a time."""
        version = int(world.VERSION)
        while True:
            for start in range(0, len(self._nodes), RENEWED):
                version += 1
                for node in self._nodes[start : start + RENEWED]:
                    lease = objects.lease(node, now=world.timestamp(dt.datetime.now(dt.UTC)))
                    lease["metadata"]["resourceVersion"] = str(version)
                    self._server.send(LEASES, {"type": "MODIFIED", "object": lease})
                await asyncio.sleep(RENEWED * RENEW_SECONDS / len(self._nodes))

    def _in_force(self) -> bool:
        ledger = self._extender.ledger
        return ledger.policy is not None and ledger.policy.generation == self._generation and ledger.behind == 0


async def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise errors.TemporaryError(f"the extender was not done within {DEADLINE_SECONDS:.0f} s", delay_seconds=0)
        await asyncio.sleep(0.01)
