"""What supervisors ask of the driver and of MPS, asked no more often than needed and remembered for others.

An answer of the driver is about one GPU and serves everybody who asked before it was begun. So no answer is older than
the asking: what is changed never rests on what was seen before another change; and no GPU waits for another one. What a
compute mode was before it is first set is noted on disk.
"""

import functools
from collections.abc import Callable
from typing import Protocol

from cotenant_api import errors, placement
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.mps import backend, clearing
from cotenant_deviceplugin.mps.supervisor import Look
from cotenant_deviceplugin.sharing import Shared

RETRY_SECONDS = 5.0

_Answer = tuple[hardware.Readings, hardware.Usage]


class Stirring(backend.Backend, Protocol):
    """A backend that tells cheaply whether anything has happened."""

    def stirred(self, gpu: GPUUID) -> bool:
        """Return whether something has happened to the GPU's server since `observe`."""


class Looks:
    """The driver as supervisors see it.

    Args:
        gpus: the driver.
        modes: what compute modes were before.
        own: PIDs of the agent's own programs on the GPUs.
    """

    def __init__(
        self, gpus: hardware.ManagedHardware, modes: clearing.Modes, *, own: Callable[[], frozenset[int]]
    ) -> None:
        self._gpus, self._modes, self._own = gpus, modes, own
        self._fresh: dict[GPUUID, Shared[_Answer]] = {}

    async def look(self, gpu: GPUUID) -> Look:
        """Compute mode and processes. Raises TemporaryError: of what cannot be read, nothing is known."""
        if gpu not in self._fresh:
            self._fresh[gpu] = Shared(functools.partial(self._ask, gpu))
        readings, usage = await self._fresh[gpu]()
        processes = frozenset(process.pid for process in usage.processes)
        before = await self._modes.read(gpu)
        return Look(compute_mode=readings.compute_mode, processes=processes, before=before, own=self._own())

    async def set_compute_mode(self, gpu: GPUUID, mode: hardware.ComputeMode) -> None:
        """As the hardware does. What the mode is now is on disk before it changes, until it is so again."""
        before = await self._modes.note(gpu, (await self.look(gpu)).compute_mode)
        await self._gpus.set_compute_mode(gpu, mode)
        if mode is before:
            await self._modes.forget(gpu)

    async def _ask(self, gpu: GPUUID) -> _Answer:
        readings = await self._gpus.readings_of(gpu)
        if readings is None or readings.fault is not None:
            reason = "it cannot be read" if readings is None else readings.fault
            raise errors.TemporaryError(f"{gpu}: {reason}", delay_seconds=RETRY_SECONDS)
        return readings, await self._gpus.usage_of(gpu)


class Remembering:
    """A backend that remembers what it saw last of each GPU's server."""

    def __init__(self, wrapped: Stirring) -> None:
        self.servers: dict[GPUUID, backend.Server] = {}
        self._wrapped = wrapped

    @property
    def properties(self) -> backend.Properties:
        """What it enforces, and how."""
        return self._wrapped.properties

    def stirred(self, gpu: GPUUID) -> bool:
        """Return whether something has happened since it was observed."""
        return self._wrapped.stirred(gpu)

    async def observe(self, gpu: GPUUID) -> backend.Server:
        """Ask, and remember."""
        self.servers[gpu] = seen = await self._wrapped.observe(gpu)
        return seen

    async def answers(self, gpu: GPUUID) -> bool:
        """Return whether the GPU has a control daemon."""
        return await self._wrapped.answers(gpu)

    async def start(self, gpu: GPUUID) -> None:
        """Have the GPU's server started."""
        await self._wrapped.start(gpu)

    async def stop(self, gpu: GPUUID) -> None:
        """End the GPU's server."""
        await self._wrapped.stop(gpu)

    async def terminate(self, gpu: GPUUID, pid: int) -> None:
        """End one client."""
        await self._wrapped.terminate(gpu, pid)

    def edits(self, gpu: GPUUID, booking: placement.GPUBooking, *, processes: int) -> backend.Edits:
        """Environment and mounts of a container."""
        return self._wrapped.edits(gpu, booking, processes=processes)
