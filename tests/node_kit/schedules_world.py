"""What a seeded schedule of late binding takes place in: API server, GPUs, disk, CDI folder and container runtime.

Every call of the agent may take a while, be cut short by the agent's death at any point, and find the API server or the
disk failing. The world knows the truth, and checks it whenever a container starts.
"""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cotenant_api import errors, placement
from cotenant_api.names import GPUUID, HUNDREDTHS, Namespace, NodeName, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.binding import disk, ledger
from cotenant_deviceplugin.binding.grants import Grant, Numbers, ServedGPU
from cotenant_deviceplugin.binding.ledger import Ledger, Nonce
from cotenant_deviceplugin.mps.backend import Edits
from node_kit import kubelet_devices

NODE = NodeName("n1")
TEAM = Namespace("team")
START = datetime(2026, 3, 1, tzinfo=UTC)
TURNS_A_SECOND = 5


class ViolationError(Exception):
    """What must never be has been."""


class KilledError(BaseException):
    """The agent's process has ended at this point. No handler of it may run: hence no Exception."""


@dataclass
class Job:
    """A pod and the truth about it.

    Attributes:
        valid: whether its placement is for it.
        placements: what its annotation has said; the last one counts.
        gone, finished: at the API server.
        alive: it has a sandbox or a process on the host.
        limits: what its container has now; None: it does not run.
        first: what it ever started with.
        hidden: its processes open no GPU for as long as the schedule lasts; they may at any time.
    """

    pod: kubelet_devices.Pod
    valid: bool
    placements: list[placement.Placement]
    gone: bool = False
    finished: bool = False
    alive: bool = False
    limits: tuple[tuple[str, int], ...] | None = None
    first: tuple[tuple[str, int], ...] | None = None
    hidden: bool = False

    @property
    def uid(self) -> PodUID:
        """The pod's."""
        return PodUID(self.pod.uid)

    def bound(self) -> pods.BoundPod:
        """As the API server tells it."""
        return pods.BoundPod(
            uid=self.uid,
            namespace=TEAM,
            name=self.pod.name,
            running=self.limits is not None,
            finished=self.finished,
            node=NODE,
            container="main",
            requested_share=self.pod.containers[0].request,
            booked=self.placements[-1],
        )


def limits_of(booked: placement.Placement) -> tuple[tuple[str, int], ...]:
    """GPUs and their hundredths."""
    return tuple((gpu.uuid, gpu.share) for gpu in booked.gpus)


@dataclass
class World:
    """All that outlives the agent.

    Attributes:
        names: the CDI folder: what each nonce resolves to.
        minors: of the GPUs whose nodes it gives.
        withdrawn: what resolves no more, and may have before.
        refused: reasons by pod.
        api_down, disk_fails: while they last.
    """

    rng: random.Random
    gpus: dict[GPUUID, ServedGPU]
    jobs: list[Job] = field(default_factory=list)
    stored: str = field(default_factory=lambda: disk.to_text(Ledger()))
    names: dict[Nonce, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    minors: dict[Nonce, frozenset[int | None]] = field(default_factory=dict)
    withdrawn: set[Nonce] = field(default_factory=set)
    refused: dict[PodUID, str] = field(default_factory=dict)
    listed: set[PodUID] = field(default_factory=set)
    api_down: bool = False
    disk_fails: bool = False
    minted: int = 0

    def started(self, job: Job, nonce: Nonce) -> None:
        """The runtime has made the job's container with what the name resolves to. Raises ViolationError."""
        limits = self.names[nonce]
        job.limits = limits
        if not job.valid or limits not in [limits_of(each) for each in job.placements]:
            raise ViolationError(f"{job.pod.name} ({job.uid}) started with {limits}, booked {job.placements}")
        if job.first not in {None, limits}:
            raise ViolationError(f"{job.pod.name} ({job.uid}) had {job.first} and started again with {limits}")
        if job.uid not in self.listed:
            raise ViolationError(f"{job.pod.name} ({job.uid}) started before it was listed")
        job.first = limits
        self.check()

    def users(self, gpu: GPUUID) -> frozenset[PodUID]:
        """Pods of which a process is on a GPU."""
        seen = (job for job in self.jobs if not job.hidden)
        return frozenset(job.uid for job in seen if any(uuid == gpu for uuid, _ in job.limits or ()))

    def check(self) -> None:
        """Raise ViolationError where the running containers of a GPU have more than all of it."""
        total: Counter[str] = Counter()
        for job in self.jobs:
            for uuid, share in job.limits or ():
                total[uuid] += share
        for uuid, share in total.items():
            if share > HUNDREDTHS:
                raise ViolationError(f"{share} hundredths of {uuid} run")


class Life:
    """One life of the agent: its view of the world, which ends in the middle of whatever it does.

    It is Disk, PodReader, Processes, Gate, Publisher, Specifications and Clock at once.

    Attributes:
        tenants: who has a GPU by what late binding knows.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.dead = False
        self.steps_left: int | None = None
        self.tenants: Callable[[GPUUID], tuple[Grant, ...]] = lambda _: ()

    async def _step(self) -> None:
        """Something takes a while, and may be the last thing that happens."""
        for _ in range(self.world.rng.choice((0, 0, 1, 2, 5))):
            await asyncio.sleep(0)
        if self.steps_left is not None:
            self.steps_left -= 1
            self.dead = self.dead or self.steps_left <= 0
        if self.dead:
            raise KilledError

    # Disk

    async def read_ledger(self) -> Ledger:
        """From what stands on the disk."""
        await self._step()
        return disk.from_text(self.world.stored.encode())

    async def write_ledger(self, new: Ledger) -> None:
        """A failing disk may have written it all the same."""
        await self._step()
        if not self.world.disk_fails or self.world.rng.random() < 0.5:
            self.world.stored = disk.to_text(new)
        await self._step()
        if self.world.disk_fails:
            raise errors.TemporaryError("the disk fails", delay_seconds=1)

    # PodReader, Processes

    async def read(self, _namespace: Namespace, name: str) -> pods.BoundPod | None:
        """The newest pod of that name."""
        await self._api()
        found = [job for job in self.world.jobs if job.pod.name == name and not job.gone]
        answer = found[-1].bound() if found else None
        await self._step()
        return answer

    async def bound(self) -> tuple[pods.BoundPod, ...]:
        """All pods."""
        await self._api()
        answer = tuple(job.bound() for job in self.world.jobs if not job.gone)
        await self._step()
        return answer

    async def alive(self) -> frozenset[PodUID]:
        """Pods with a sandbox."""
        await self._step()
        return frozenset(job.uid for job in self.world.jobs if job.alive)

    # Gate, Publisher

    async def admit(self, grant: Grant, *, new: bool) -> Edits:
        """What the container gets is told by its environment."""
        await self._step()
        for gpu in grant.booked.gpus:
            if self.world.gpus[gpu.uuid].closed:
                raise errors.TemporaryError("the GPU is closed", delay_seconds=1)
            if new and self.world.users(gpu.uuid) - {each.pod_uid for each in self.tenants(gpu.uuid)}:
                raise errors.TemporaryError("a process that no tenant explains", delay_seconds=1)
        await self._step()
        return Edits(environment={gpu.uuid: str(gpu.share) for gpu in grant.booked.gpus})

    async def list_tenant(self, grant: Grant) -> None:
        """Written to the GPUNode."""
        await self._api()
        self.world.listed.add(grant.pod_uid)
        await self._step()

    def refuse(self, pod_uid: PodUID, reason: str) -> None:
        """For good."""
        self.world.refused[pod_uid] = reason

    async def _api(self) -> None:
        await self._step()
        if self.world.api_down:
            raise errors.TemporaryError("the API server is down", delay_seconds=1)

    # Specifications

    async def write(self, nonce: Nonce, gpus: Mapping[GPUUID, Numbers], edits: Edits) -> None:
        """Have it resolve."""
        await self._step()
        self.world.names[nonce] = tuple((uuid, int(edits.environment[uuid])) for uuid in gpus)
        self.world.minors[nonce] = frozenset(numbers.minor for numbers in gpus.values())
        await self._step()

    async def resolved(self) -> frozenset[Nonce]:
        """What resolves, or may have."""
        await self._step()
        return frozenset(self.world.names) | self.world.withdrawn

    async def restrict(self, minors: Mapping[Nonce, Collection[int]]) -> None:
        """All at once."""
        await self._step()
        found = self.world.names.keys() & minors.keys()
        wrong = frozenset(nonce for nonce in found if self.world.minors[nonce] != frozenset(minors[nonce]))
        self.world.withdrawn |= wrong
        for nonce in wrong:
            del self.world.names[nonce]

    async def remove(self, nonces: Collection[Nonce]) -> None:
        """One after another."""
        for nonce in sorted(nonces):
            await self._step()
            self.world.names.pop(nonce, None)
            self.world.withdrawn.discard(nonce)

    # Nonces

    def mint(self) -> Nonce:
        """A new one."""
        self.world.minted += 1
        return Nonce(f"n{self.world.minted}")


class LifeDisk:
    """Disk of one life."""

    def __init__(self, life: Life) -> None:
        self._life = life

    async def read(self) -> Ledger:
        """See `Life.read_ledger`."""
        return await self._life.read_ledger()

    async def write(self, ledger: Ledger) -> None:
        """See `Life.write_ledger`."""
        await self._life.write_ledger(ledger)


class LifeSpecifications:
    """CDI folder of one life."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self.write, self.remove, self.names = life.write, life.remove, life.resolved
        self.restrict = life.restrict


class TurnClock:
    """Time that passes with the turns of the loop that a schedule makes."""

    def __init__(self) -> None:
        self._turns = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """After all turns."""
        return START + timedelta(seconds=self._turns / TURNS_A_SECOND)

    async def sleep(self, seconds: float) -> None:
        """Wait for turns."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((self._turns + math.ceil(seconds * TURNS_A_SECOND), future))
        await future

    async def turn(self) -> None:
        """Everybody who can goes on a little."""
        self._turns += 1
        due = [future for turn, future in self._waiting if turn <= self._turns and not future.done()]
        self._waiting = [(turn, future) for turn, future in self._waiting if turn > self._turns]
        for future in due:
            future.set_result(None)
        await asyncio.sleep(0)


def nonce_of(names: Collection[str]) -> Nonce:
    """What the runtime is to resolve."""
    (name,) = names
    return Nonce(name.removeprefix(f"{ledger.KIND}="))
