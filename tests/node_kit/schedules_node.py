"""The node of a seeded schedule: an imitated kubelet, its container runtime, and the lives of the agent."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

from cotenant_api import errors, packingpolicy
from cotenant_api.names import NodeName, PodUID
from cotenant_deviceplugin.binding.late_binding import LateBinding, Surroundings
from cotenant_deviceplugin.kubelet.plugin import CDIName, Token, Tokens
from node_kit import kubelet_direct
from node_kit.kubelet import Kubelet
from node_kit.kubelet_devices import KubeletError
from node_kit.schedules_world import (
    NODE,
    Job,
    KilledError,
    Life,
    LifeDisk,
    LifeSpecifications,
    TurnClock,
    ViolationError,
    World,
    nonce_of,
)

Build = Callable[[NodeName, Surroundings], LateBinding]


class Mortal:
    """The agent as kubelet reaches it: when it is killed, connections break."""

    def __init__(self, binding: LateBinding) -> None:
        self.binding = binding

    async def offers(self) -> AsyncIterator[Mapping[Token, bool]]:
        """See `Shares`."""
        try:
            async for offer in self.binding.offers():
                yield offer
        except KilledError as error:
            raise errors.TemporaryError("connection lost", delay_seconds=0) from error

    async def allocate(self, tokens: Tokens) -> CDIName:
        """See `Shares`."""
        try:
            return await self.binding.allocate(tokens)
        except KilledError as error:
            raise errors.TemporaryError("connection lost", delay_seconds=0) from error

    async def pre_start(self, tokens: Tokens) -> None:
        """See `Shares`."""
        try:
            await self.binding.pre_start(tokens)
        except KilledError as error:
            raise errors.TemporaryError("connection lost", delay_seconds=0) from error


class Node:
    """kubelet, runtime and agent of one world.

    Attributes:
        log: what happened.
        violation: what must never be; the first one.
        life, binding: the agent's; None: it does not run.
        admitted: pods that this kubelet has admitted.
        new_life: makes the agent's next life.
    """

    def __init__(self, rng: random.Random, world: World, build: Build = LateBinding) -> None:
        self.rng, self.world = rng, world
        self.log: list[str] = []
        self.violation: ViolationError | None = None
        self.clock = TurnClock()
        self.kubelet = Kubelet(rng, self.clock)
        self.life: Life | None = None
        self.binding: LateBinding | None = None
        self.admitted: set[PodUID] = set()
        self.new_life: Callable[[World], Life] = Life
        self._build = build
        self._following: asyncio.Task[None] | None = None
        self._pods: dict[PodUID, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    async def turn(self, turns: int) -> None:
        """Let everybody go on. Raises ViolationError."""
        for _ in range(turns):
            await self.clock.turn()
        if self.life is not None and self.life.dead:
            self.bury()
        if self.violation is not None:
            raise self.violation

    async def close(self) -> None:
        """End everything."""
        tasks = [*self._pods.values(), *self._others, *([self._following] if self._following else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def lose_stream(self) -> None:
        """The connection of ListAndWatch breaks."""
        if self._following is not None:
            self._following.cancel()

    def collect(self) -> None:
        """The agent looks for what has ended."""
        if self.binding is not None:
            self._agent(self._collected(self.binding))

    def register(self) -> None:
        """The agent has noticed that kubelet does not know it."""
        if self.binding is not None:
            self._agent(self._register(self.binding))

    # kubelet and runtime

    def start(self, job: Job) -> None:
        """Have kubelet work on a pod, unless it does or has done."""
        task = self._pods.get(job.uid)
        if (task is None or task.done()) and job.pod.active and job.limits is None:
            self._pods[job.uid] = asyncio.create_task(self._live(job))

    async def _live(self, job: Job) -> None:
        """What kubelet does for one pod."""
        if job.uid not in self.admitted:
            if not await self.kubelet.admit(job.pod):
                return
            self.admitted.add(job.uid)
        while job.pod.active and job.limits is None:
            job.alive = True
            try:
                names = await self.kubelet.start(job.pod)
                for _ in range(self.rng.choice((0, 1, 3))):
                    await asyncio.sleep(0)
                self._create(job, names)
            except KubeletError as error:
                job.pod.failure = str(error)
                for _ in range(self.rng.choice((1, 5, 20))):
                    await asyncio.sleep(0)

    def _create(self, job: Job, names: tuple[str, ...]) -> None:
        """The container runtime."""
        nonce = nonce_of(names)
        if nonce not in self.world.names:
            raise KubeletError(f"unresolvable CDI devices {nonce}")
        try:
            self.world.started(job, nonce)
        except ViolationError as error:
            self.violation = self.violation or error
            return
        self.log.append(f"  {job.pod.name} ({job.uid}) starts with {job.limits}")
        self.kubelet.started(job.pod)

    def stop(self, *jobs: Job) -> None:
        """Kubelet works on these no more: it has ended, or they have."""
        for job in jobs:
            task = self._pods.pop(job.uid, None)
            if task is not None:
                task.cancel()

    # The agent

    def revive(self) -> None:
        """One agent at a time: another is kept out by a lock on the host."""
        life = self.new_life(self.world)
        surroundings = Surroundings(
            disk=LifeDisk(life),
            kubelet=self.kubelet,
            pods=life,
            processes=life,
            gate=life,
            publisher=life,
            specifications=LifeSpecifications(life),
            clock=self.clock,
            nonces=life.mint,
            tenant_user=lambda: packingpolicy.TenantUser.NON_ROOT,
        )
        self.life, self.binding = life, self._build(NODE, surroundings)
        life.tenants = self.binding.tenants
        self.serve()
        self._agent(self._open(self.binding))

    async def _open(self, binding: LateBinding) -> None:
        with contextlib.suppress(errors.TemporaryError):
            await binding.revise()
            await binding.recover()
        await self._register(binding)

    async def _register(self, binding: LateBinding) -> None:
        following = await kubelet_direct.register(self.kubelet, Mortal(binding))
        if self._following is not None:
            self._following.cancel()
        self._following = following

    async def _collected(self, binding: LateBinding) -> None:
        with contextlib.suppress(errors.TemporaryError):
            await binding.collect()

    def serve(self) -> None:
        """Tell the agent of the GPUs as they are."""
        if self.binding is not None:
            self.binding.serve(self.world.gpus, suspended=None)

    def bury(self) -> None:
        """The agent has ended."""
        if self.life is not None:
            self.life.dead = True
        self.life = self.binding = None
        if self._following is not None:
            self._following.cancel()

    def _agent(self, work: Coroutine[None, None, None]) -> None:
        async def until_killed() -> None:
            with contextlib.suppress(KilledError, errors.TemporaryError):
                await work

        task = asyncio.create_task(until_killed())
        self._others.add(task)
        task.add_done_callback(self._others.discard)
