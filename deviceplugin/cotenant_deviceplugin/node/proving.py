"""Has a canary use each GPU that waits for one, and hands on what came of it. What that proves: `gpus.health`."""

import logging
from datetime import datetime, timedelta
from typing import Protocol

from cotenant_api import backoff, errors, gpunode
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.clock import Clock
from cotenant_deviceplugin.gpus.evidence import Canary
from cotenant_deviceplugin.mps import canaries
from cotenant_deviceplugin.node.health import Keeper

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 300.0
"""After a canary that did not pass; doubled each time."""
log = logging.getLogger("cotenant.agent")


class Canaries(Protocol):
    """Runs canaries (`mps.canaries.Canaries`)."""

    @property
    def pids(self) -> frozenset[int]:
        """Processes of canaries."""

    def last(self, gpu: GPUUID) -> int | None:
        """Return the process of the last canary of a GPU."""

    async def run(self, gpu: GPUUID, *, server: canaries.Server | None) -> str | None:
        """Why one did not pass; None: it did. `server`: it is to be its client; None: it uses the GPU directly."""


class Where(canaries.Server, Protocol):
    """Knows the GPUs' modes and servers (`machines.Machines`)."""

    async def provable(self, gpu: GPUUID) -> gpunode.Mode | None:
        """Return the mode in which a canary may use the GPU now; None: in none. Raises TemporaryError."""


class Proving:
    """Canaries of one node.

    Args:
        canaries: runs them.
        health: knows who waits for one, and weighs it.
        machines: knows where one can run.
        clock: the time.
    """

    def __init__(self, canaries: Canaries, health: Keeper, machines: Where, *, clock: Clock) -> None:
        self._canaries, self._health, self._machines, self._clock = canaries, health, machines, clock
        self._failed: dict[GPUUID, int] = {}
        self._paused: dict[GPUUID, tuple[datetime, datetime]] = {}
        """From when until when. A clock that is set back ends a pause."""

    def due(self) -> tuple[GPUUID, ...]:
        """Return the GPUs that want a canary now."""
        wanting = self._health.wanting()
        for gpu in self._failed.keys() - set(wanting):
            del self._failed[gpu], self._paused[gpu]
        now = self._clock.now()
        return tuple(gpu for gpu in wanting if gpu not in self._paused or not _within(now, self._paused[gpu]))

    async def prove(self, gpu: GPUUID) -> bool:
        """Run a canary on a GPU, and return whether it has ended; not where none can use the GPU now."""
        try:
            mode = await self._machines.provable(gpu)
        except errors.TemporaryError as error:
            log.debug("no canary: %s", error)
            return False
        if mode is None:
            return False
        began = self._clock.now()
        fault = await self._canaries.run(gpu, server=self._machines if mode is gpunode.Mode.SHARED else None)
        self._health.tried(gpu, Canary(began=began.timestamp(), fault=fault))
        if fault is None:
            log.info("%s: a canary has passed", gpu)
        else:
            log.warning("%s: %s", gpu, fault)
            self._pause(gpu)
        return True

    def _pause(self, gpu: GPUUID) -> None:
        failed = self._failed.get(gpu, 0)
        seconds = backoff.doubled(FIRST_PAUSE_SECONDS, failed, most=LONGEST_PAUSE_SECONDS)
        self._failed[gpu] = failed + 1
        now = self._clock.now()
        self._paused[gpu] = now, now + timedelta(seconds=seconds)


def _within(now: datetime, pause: tuple[datetime, datetime]) -> bool:
    return pause[0] <= now < pause[1]
