"""A node whose agent binds late, call by call: nothing happens by itself."""

import random

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import disk
from cotenant_deviceplugin.binding.grants import Numbers, ServedGPU
from cotenant_deviceplugin.binding.ledger import Ledger
from cotenant_deviceplugin.kubelet.plugin import Token, Tokens
from node_kit.bookings import A, B, booked
from node_kit.kubelet_devices import Container, Pod
from node_kit.schedules_node import Node
from node_kit.schedules_world import Job, World

OPEN = {A: ServedGPU(numbers=Numbers(0, 0)), B: ServedGPU(numbers=Numbers(1, 1))}


class Bench:
    """A node where nothing happens by itself."""

    def __init__(self) -> None:
        self.world = World(random.Random(0), dict(OPEN))  # noqa: S311
        self.node = Node(self.world.rng, self.world)

    async def begin(self) -> None:
        """The agent starts, and kubelet knows it."""
        self.node.revive()
        await self.node.turn(60)

    def job(self, uid: str, *shares: tuple[GPUUID, int], request: int = 2, **changes: object) -> Job:
        """A pod that is bound here."""
        placed = booked(uid, *shares, **changes)
        pod = Pod(uid=uid, name=f"p-{uid}", containers=(Container(request=request),))
        self.world.jobs.append(Job(pod=pod, valid=placed.pod_uid == uid, placements=[placed]))
        return self.world.jobs[-1]

    async def admit(self, job: Job) -> Tokens:
        """Its tokens, allocated."""
        assert await self.node.kubelet.admit(job.pod)
        self.node.admitted.add(job.uid)
        return frozenset(map(Token, self.node.kubelet.devices.held[job.pod.uid, "main"].ids))

    async def run(self, job: Job, turns: int = 200) -> Job:
        """Let kubelet start it."""
        self.node.start(job)
        await self.node.turn(turns)
        return job

    async def crash(self, job: Job) -> None:
        """Its container ends, and kubelet starts it again."""
        job.limits = None
        job.pod.running.clear()
        await self.run(job)

    async def die(self) -> None:
        """SIGKILL, and the next life."""
        self.node.bury()
        await self.begin()

    def stored(self) -> Ledger:
        """What is on disk."""
        return disk.from_text(self.world.stored.encode())

    async def pre_start(self, tokens: Tokens) -> None:
        """The call itself."""
        assert self.node.binding is not None
        await self.node.binding.pre_start(tokens)
