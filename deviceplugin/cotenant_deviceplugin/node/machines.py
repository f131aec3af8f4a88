"""The MPS server and the compute mode of every GPU of the node, kept as the grants want them.

What to do is decided in `mps.supervision`. A GPU that is not the agent's to manage (in MIG mode, of a node of which too
little is known) is left exactly as it is, unless a tenant still holds it; one that is given back (excluded, handed out
by another device plugin, of a policy that packs nothing) is made what it was before.
"""

import asyncio
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from cotenant_api import errors, gpunode, placement
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.mps import supervision
from cotenant_deviceplugin.mps.supervisor import Driver, Supervisor
from cotenant_deviceplugin.node.looks import Remembering
from cotenant_deviceplugin.sharing import Shared

PATIENCE_SECONDS = 20.0
"""How long a server may take to start on a GPU that was well, before that speaks against the GPU."""
CALM_SECONDS = 30.0
"""Between two observations of a GPU of which nothing new is known. Meanwhile what its daemon says is followed."""
BUSY_SECONDS = 1.0
"""Between two while something is under way."""

Took = Callable[[GPUUID, supervision.Decision | None, supervision.Decision], None]


@dataclass(frozen=True, kw_only=True)
class Doors:
    """What the machines ask of others.

    Attributes:
        tenants: who holds a GPU, or is being made ready for it.
        unfit: whether nothing of any GPU may be changed, whoever holds it: the driver is too old.
        reserved: the mode of a GPU that is not the agent's to manage; None: it is.
        given_back: whether such a GPU is to be what it was before.
        took: is told of every decision, and of the one before.
    """

    tenants: Callable[[GPUUID], tuple[Grant, ...]]
    unfit: Callable[[], bool]
    reserved: Callable[[GPUUID], gpunode.Mode | None]
    given_back: Callable[[GPUUID], bool]
    took: Took


class Machines:
    """All GPUs of one node.

    Args:
        mps: the backend.
        driver: of the GPUs.
        doors: to others.
        monotonic: a clock that never goes back, in seconds.
        policy: bounds.
    """

    def __init__(
        self,
        mps: Remembering,
        driver: Driver,
        *,
        doors: Doors,
        monotonic: Callable[[], float],
        policy: supervision.Policy,
    ) -> None:
        self._mps, self._driver, self._doors = mps, driver, doors
        self._monotonic, self._policy = monotonic, policy
        self._supervisors: dict[GPUUID, Supervisor] = {}
        self._settling: dict[GPUUID, Shared[supervision.Decision]] = {}
        self._decisions: dict[GPUUID, supervision.Decision] = {}
        self._next: dict[GPUUID, float] = {}
        self._unready_since: dict[GPUUID, float] = {}
        self._proven: set[GPUUID] = set()
        self._modes: dict[GPUUID, gpunode.Mode] = {}
        self._begun: set[asyncio.Task[supervision.Decision]] = set()

    def know(self, gpus: Iterable[GPUUID]) -> None:
        """GPUs of the node; one that was known stays known."""
        for gpu in gpus:
            if gpu not in self._supervisors:
                self._supervisors[gpu] = Supervisor(
                    gpu, backend=self._mps, driver=self._driver, monotonic=self._monotonic, policy=self._policy
                )
                self._settling[gpu] = Shared(functools.partial(self._settle, gpu))

    def wanted(self, gpu: GPUUID) -> gpunode.Mode:
        """Return the mode that follows from who holds the GPU; without tenants, from whose it is to manage."""
        backends = {grant.booked.backend for grant in self._doors.tenants(gpu)}
        if self._doors.unfit():
            return gpunode.Mode.EXCLUDED
        if placement.Backend.WHOLE in backends:
            return gpunode.Mode.WHOLE
        reserved = None if backends else self._doors.reserved(gpu)
        return reserved or gpunode.Mode.SHARED

    def decision(self, gpu: GPUUID) -> supervision.Decision | None:
        """Return the last one; None: the GPU was not examined yet."""
        return self._decisions.get(gpu)

    def evidence(self, gpu: GPUUID) -> gpunode.MPS:
        """Return what the server says about the GPU's health.

        NotUsed: nothing, as none is wanted now, or a mode changes.
        """
        if self.wanted(gpu) is not gpunode.Mode.SHARED:
            return gpunode.MPS.NOT_USED
        decision = self._decisions.get(gpu)
        if decision is None:
            return gpunode.MPS.STOPPED
        if decision.fault is not None:
            return gpunode.MPS.FAULT
        if decision.ready or decision.published is gpunode.MPS.FAULT:
            return decision.published
        since = self._unready_since.get(gpu)
        young = since is not None and self._monotonic() - since < PATIENCE_SECONDS
        if gpu in self._proven and young and decision.state.fault is None:
            return gpunode.MPS.NOT_USED
        # ACTIVE and yet not ready: its compute mode is not what it should be.
        return gpunode.MPS.STARTING if decision.published is gpunode.MPS.ACTIVE else decision.published

    async def provable(self, gpu: GPUUID) -> gpunode.Mode | None:
        """Return the mode in which a canary may use the GPU now; None: in none.

        Shared: its server is there. Whole: nobody uses it, for the memory may all be a tenant's. Raises TemporaryError.
        """
        decision, mode = self._decisions.get(gpu), self.wanted(gpu)
        if decision is None or not decision.ready or self._modes.get(gpu) is not mode:
            return None
        if mode is gpunode.Mode.WHOLE and (await self._driver.look(gpu)).processes:
            return None
        return mode

    async def clients(self, gpu: GPUUID) -> frozenset[int]:
        """PIDs of the clients of a GPU's server, asked now. Raises TemporaryError."""
        await self.step(gpu)
        server = self._mps.servers.get(gpu)
        return frozenset(server.clients) if server else frozenset()

    async def terminate(self, gpu: GPUUID, pid: int) -> None:
        """End one client, so that its neighbours live. Raises TemporaryError."""
        await self._supervisors[gpu].terminate(pid)

    def heard(self, gpu: GPUUID | None) -> None:
        """Note that the driver has told of a critical event of a GPU; None: of all GPUs."""
        for each, supervisor in self._supervisors.items():
            if gpu in {None, each}:
                supervisor.heard()

    def server_pids(self) -> frozenset[int]:
        """PIDs of the servers: they hold memory of the GPUs and are nobody's tenants."""
        return frozenset(server.pid for server in self._mps.servers.values() if server.pid is not None)

    def seen_clients(self) -> Mapping[GPUUID, tuple[int, ...]]:
        """PIDs of the clients of each GPU's server, as they were seen last."""
        return {gpu: server.clients for gpu, server in self._mps.servers.items()}

    async def settle(self, gpu: GPUUID) -> supervision.Decision:
        """Have the GPU made ready for its tenants, as far as that can be done at once. Raises TemporaryError."""
        settling = self._settling.get(gpu)
        if settling is None:
            raise errors.TemporaryError(f"{gpu}: it is not known yet", delay_seconds=1)
        return await settling()

    def due(self) -> tuple[GPUUID, ...]:
        """Return the GPUs that are to be looked at now."""
        now = self._monotonic()
        return tuple(
            gpu
            for gpu in self._supervisors
            if now >= self._next.get(gpu, 0) or self._modes.get(gpu) is not self.wanted(gpu) or self._mps.stirred(gpu)
        )

    async def step(self, gpu: GPUUID) -> supervision.Decision:
        """Look at one GPU, and do what follows. Raises TemporaryError: its driver cannot be asked."""
        self._next[gpu] = self._monotonic() + BUSY_SECONDS
        try:
            decision = await self._supervisors[gpu].step(self._want(gpu))
        except errors.TemporaryError as error:
            self._unready_since.setdefault(gpu, self._monotonic())
            if (last := self._decisions.get(gpu)) is not None:
                # What was seen before says nothing about now.
                self._decisions[gpu] = replace(last, ready=False, reason=str(error), actions=(), blocking=frozenset())
            raise
        return self._took(gpu, decision)

    async def _settle(self, gpu: GPUUID) -> supervision.Decision:
        """Settle, and take in what came of it, also where nobody waits any more: what a daemon says is read once."""
        task = asyncio.create_task(self._settled(gpu))
        self._begun.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _settled(self, gpu: GPUUID) -> supervision.Decision:
        return self._took(gpu, await self._supervisors[gpu].settle(self._want(gpu)))

    def _ended(self, task: asyncio.Task[supervision.Decision]) -> None:
        self._begun.discard(task)
        if not task.cancelled():
            # Whoever waits is told; else the next look finds the same.
            task.exception()

    def _want(self, gpu: GPUUID) -> gpunode.Mode | None:
        self._modes[gpu] = mode = self.wanted(gpu)
        return None if mode is gpunode.Mode.EXCLUDED and self._doors.given_back(gpu) else mode

    def _took(self, gpu: GPUUID, decision: supervision.Decision) -> supervision.Decision:
        now = self._monotonic()
        before = self._decisions.get(gpu)
        self._decisions[gpu] = decision
        idle = decision.published is gpunode.MPS.NOT_USED and not decision.actions
        calm = decision.ready or idle
        quiet = calm and not decision.state.heard.pending
        self._next[gpu] = now + (CALM_SECONDS if quiet else BUSY_SECONDS)
        if calm:
            self._unready_since.pop(gpu, None)
            self._proven.add(gpu)
        else:
            self._unready_since.setdefault(gpu, now)
        self._doors.took(gpu, before, decision)
        return decision
