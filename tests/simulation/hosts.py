"""A pod of kube-scheduler and its sidecar, the real extender. Each container dies and comes back on its own."""

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

from cotenant_api import errors
from cotenant_extender import service, wire
from simulation import election, network, processes, scheduling, turns

CALL_SECONDS = 5.0


class World(Protocol):
    """What a host needs of the world."""

    network: network.Network
    step_seconds: float

    def rng(self, name: str) -> random.Random:
        """A source of randomness of its own."""

    def clock(self) -> float:
        """Seconds since the epoch, as the API server has it."""

    def say(self, text: str) -> None:
        """For the history."""

    def fail(self, text: str) -> None:
        """Something is wrong."""


Prepare = Callable[[service.Extender], None]


class Host:
    """One pod of the control plane.

    Args:
        skew: by how much its clock is ahead, in seconds.
        prepare: what is done to each extender before it runs.

    Attributes:
        extender: the one that runs at present; its last one while none does.
        on_call: is told the verb of each request that was accepted, before the extender works on it.
    """

    def __init__(self, world: World, name: str, rng: random.Random, *, skew: float, prepare: Prepare) -> None:
        self.world, self.name, self.rng = world, name, rng
        self._skew, self._prepare = skew, prepare
        self._count = 0
        self.on_call: Callable[[str], None] = lambda _: None
        self.extender: service.Extender | None = None
        self.extender_process: processes.Process | None = None
        self.extender_link: network.Link | None = None
        self.scheduler: scheduling.Scheduler | None = None
        self.scheduler_process: processes.Process | None = None
        self.scheduler_link: network.Link | None = None

    def clock(self) -> float:
        """Seconds since the epoch, by this host."""
        return self.world.clock() + self._skew

    def set_clock(self, *, ahead: float) -> None:
        """Set its clock, forth or back; from now on it is so many seconds ahead."""
        self.world.say(f"the clock of {self.name} is set by {ahead - self._skew:+.1f} s")
        self._skew = ahead

    def start(self) -> None:
        """Both containers."""
        self.start_extender()
        self.start_scheduler()

    def start_extender(self) -> None:
        """Another extender process."""
        process = processes.Process(asyncio.get_running_loop(), f"{self.name}/extender")
        self.extender_process = process
        self.extender_link = self.world.network.link(process.name, self.rng)
        process.start(self._run_extender(process, self.extender_link))

    def kill_extender(self) -> None:
        """As by SIGKILL."""
        if self.extender_link is not None:
            self.extender_link.disconnect()
        if self.extender_process is not None:
            self.extender_process.kill()

    async def stop_extender(self) -> None:
        """As by SIGTERM."""
        process, extender = self.extender_process, self.extender
        if process is None or extender is None or not process.alive or process.paused:
            return
        stopping = process.start(extender.stop())
        await asyncio.wait({stopping}, timeout=10.0)
        if process.alive:
            self.kill_extender()

    def start_scheduler(self) -> None:
        """Another kube-scheduler process."""
        self._count += 1
        process = processes.Process(asyncio.get_running_loop(), f"{self.name}/scheduler")
        self.scheduler_process = process
        self.scheduler_link = link = self.world.network.link(process.name, self.rng)
        stopwatch = asyncio.get_running_loop().time
        elected = election.Election(link, f"{self.name}_{self._count}", self.clock, stopwatch)
        self.scheduler = scheduling.Scheduler(link, process, elected, call=self.call, say=self.world.say)
        process.start(self._run_scheduler(process, self.scheduler))

    def kill_scheduler(self) -> None:
        """As by SIGKILL."""
        if self.scheduler_link is not None:
            self.scheduler_link.disconnect()
        if self.scheduler_process is not None:
            self.scheduler_process.kill()

    async def stop_scheduler(self) -> None:
        """As by SIGTERM: it gives its Lease back."""
        process, scheduler = self.scheduler_process, self.scheduler
        if process is None or scheduler is None or not process.alive or process.paused:
            return
        giving = process.start(scheduler.election.give_back())
        await asyncio.wait({giving}, timeout=6.0)
        if process.alive:
            self.kill_scheduler()

    async def call(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """What kube-scheduler asks over loopback."""
        process, extender = self.extender_process, self.extender
        if process is None or extender is None or not process.alive:
            raise scheduling.UnreachableError("connection refused")
        asking = process.start(self._answer(extender, verb, body))
        self.on_call(verb)
        await asyncio.wait({asking}, timeout=CALL_SECONDS)
        if not asking.done():
            raise scheduling.UnreachableError("timed out")
        if asking.cancelled():
            raise scheduling.UnreachableError("connection reset")
        return asking.result()

    async def _answer(self, extender: service.Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        """As the routes do, without HTTP."""
        if not extender.serving():
            return 503, wire.error(extender.standing())
        try:
            if verb == "filter":
                return 200, await extender.filter(wire.decode_args(body))
            return 200, await extender.bind(wire.decode_binding(body))
        except errors.InvalidInputError as error:
            self.world.fail(f"{self.name}: {verb} refused what kube-scheduler sent: {error}")
            return 400, wire.error(str(error))
        except Exception as error:
            self.world.fail(f"{self.name}: {verb} raised {error!r}")
            raise

    async def _run_extender(self, process: processes.Process, link: network.Link) -> None:
        loop = asyncio.get_running_loop()
        settings = service.Settings(identity=self.name)
        extender = service.Extender(settings, link, clock=self.clock, stopwatch=loop.time)
        self._prepare(extender)
        rng = self.world.rng(f"turns of {process.name} at {loop.time()}")
        turns.take_time(extender, loop.time, rng, step=self.world.step_seconds)
        self.extender = extender
        self.world.say(f"{process.name} starts")
        try:
            await extender.run()
        except Exception as error:
            self.world.fail(f"{process.name} ended: {error!r}")
            raise

    async def _run_scheduler(self, process: processes.Process, scheduler: scheduling.Scheduler) -> None:
        self.world.say(f"{process.name} starts as {scheduler.election.identity}")
        await scheduler.run()
        self.world.say(f"{process.name} lost its Lease and exits")
        self.kill_scheduler()
