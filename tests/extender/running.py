"""A whole extender on the API server in memory, in virtual time, for tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson

from api_server.server import Server
from cotenant_api import names
from cotenant_extender import service, wire
from cotenant_extender.kube import pods
from extender import builders
from extender.builders import NOW

Object = dict[str, Any]

LEASES = pods.leases_path("cotenant-system")
IDENTITY = "host"
HOLDER = "host_1234"
LEASE_SECONDS = 15
DEADLINE_SECONDS = 120.0
STEP_SECONDS = 0.01
TRY_SECONDS, LONGEST_TRY_SECONDS = 0.05, 5.0
"""After how long kube-scheduler tries a pod again, twice as long each time, up to the second."""


def clock() -> float:
    """Seconds since the epoch, in the loop's virtual time."""
    return NOW + asyncio.get_running_loop().time()


async def until(holds: Callable[[], bool], what: str, *, seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until something holds."""
    deadline = clock() + seconds
    while not holds():
        if clock() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        await asyncio.sleep(STEP_SECONDS)


def server(*, nodes: int = 1, gpus: int = 2, holder: str = HOLDER, **spec: Any) -> Server:
    """An API server with nodes, a Lease that `holder` holds, and a policy."""
    found = Server(clock)
    for index in range(nodes):
        found.put(pods.NODES, builders.node(f"n{index}", gpus=gpus))
        found.put(pods.GPUNODES, builders.gpunode(f"n{index}", gpus=gpus))
    found.put(pods.POLICIES, builders.policy(**spec))
    renew(found, holder, now=NOW)
    return found


def renew(to: Server, holder: str, *, now: float, behind: float = 0.0, ahead: float = 0.0) -> None:
    """Agents and kube-scheduler renew their Leases; the agents' clocks are so many seconds behind, its own is ahead."""
    for node in to.all(pods.NODES):
        name = node["metadata"]["name"]
        to.put(LEASES, builders.lease(f"node-{name}", name, renewed=now - behind))
    leases = (lease["spec"] for lease in to.all(LEASES) if lease["metadata"]["name"] == names.SCHEDULER_LEASE)
    standing: Object = next(leases, {})
    same = {"acquireTime": standing["acquireTime"]} if standing.get("holderIdentity") == holder else {}
    to.put(LEASES, builders.lease(names.SCHEDULER_LEASE, holder, renewed=now + ahead, **same))


class Rig:
    """An extender and what it talks to.

    Attributes:
        holder: who renews the scheduler's Lease; empty: nobody renews anything.
        behind: by how many seconds the agents' clocks are behind.
    """

    def __init__(self, to: Server, *, holder: str, assume_leader: bool, wall: Callable[[], float]) -> None:
        self.server, self.holder, self.behind, self._wall = to, holder, 0.0, wall
        settings = service.Settings(identity=IDENTITY, assume_leader=assume_leader)
        self.extender = service.Extender(settings, to, clock=wall, stopwatch=clock)

    async def serving(self) -> None:
        """Wait until it serves."""
        await until(self.extender.serving, "serving")

    async def filtered(self, name: str, *nodes: str) -> list[str]:
        """The nodes that filter leaves for a pod of the server."""
        args = wire.decode_args(wire_args(self.server.pod(name), *nodes))
        return list(orjson.loads(await self.extender.filter(args))["NodeNames"])

    async def bound(self, name: str, node: str, *, uid: str = "", namespace: str = "team") -> str:
        """What bind answers: a reason, empty on success."""
        asked = {"PodName": name, "PodNamespace": namespace, "PodUID": uid or f"uid-{name}", "Node": node}
        answer = await self.extender.bind(wire.decode_binding(orjson.dumps(asked)))
        return str(orjson.loads(answer)["Error"])

    async def try_pods(self) -> None:
        """Ask filter, as kube-scheduler does, about every pod without a gate and a promise, again and again."""
        backoff: dict[str, tuple[float, float]] = {}
        while True:
            if not any(map(_is_tried, self.server.all(pods.PODS))):
                await self.server.changed()
            await asyncio.sleep(TRY_SECONDS)
            nodes = [node["metadata"]["name"] for node in self.server.all(pods.NODES)]
            for pod in filter(_is_tried, self.server.all(pods.PODS)):
                due, seconds = backoff.get(pod["metadata"]["uid"], (0.0, TRY_SECONDS))
                if self.extender.serving() and clock() >= due:
                    backoff[pod["metadata"]["uid"]] = (clock() + seconds, min(2 * seconds, LONGEST_TRY_SECONDS))
                    await self.filtered(pod["metadata"]["name"], *nodes)

    async def keep_leases(self) -> None:
        """Renew all Leases, as agents and kube-scheduler do."""
        while True:
            await asyncio.sleep(2)
            if self.holder:
                renew(self.server, self.holder, now=clock(), behind=self.behind, ahead=self._wall() - clock())


def _is_tried(pod: Object) -> bool:
    """Return whether kube-scheduler looks for a node for a pod that has no promise."""
    promised = names.EARMARK in pod["metadata"].get("annotations", {})
    return not promised and not pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName")


def wire_args(pod: Object, *nodes: str) -> bytes:
    """ExtenderArgs."""
    return orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})


@asynccontextmanager
async def extender(
    to: Server,
    *,
    holder: str = HOLDER,
    assume_leader: bool = False,
    wall: Callable[[], float] = clock,
    tries: bool = False,
) -> AsyncIterator[Rig]:
    """It runs for the block; all Leases are renewed meanwhile.

    `wall`: its clock, in seconds since the epoch; `tries`: kube-scheduler asks filter about pods.
    """
    rig = Rig(to, holder=holder, assume_leader=assume_leader, wall=wall)
    tasks = [asyncio.create_task(rig.extender.run()), asyncio.create_task(rig.keep_leases())]
    tasks += [asyncio.create_task(rig.try_pods())] if tries else []
    try:
        yield rig
    finally:
        await rig.extender.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
