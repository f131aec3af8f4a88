"""One MPS control daemon for each GPU of the node, as children of one process that does nothing else.

It outlives the agent: that adopts the daemons through their pipes. Here nothing is asked of Kubernetes, no server is
started and none is ended while it has clients, unless somebody said how long they may take. On a node that is given
back nothing is left of a GPU whose daemon was the last to use it.
"""

import asyncio
import contextlib
import functools
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import Device, Driver
from cotenant_deviceplugin.mps import clearing, daemon, lock, versions
from cotenant_deviceplugin.mps.readiness import Readiness

log = logging.getLogger(__name__)

GPUs = Callable[[], Awaitable[frozenset[GPUUID]]]
"""The GPUs that are to have a daemon. Raises TemporaryError while the driver is not there."""


async def run(
    settings: daemon.Settings,
    gpus: GPUs,
    stop: asyncio.Event,
    *,
    driver: clearing.Driver,
    readiness: Readiness | None = None,
) -> None:
    """Run daemons until `stop` is set, and end them once their clients have ended.

    While another process serves the same folder, wait for its end.

    Args:
        settings: how.
        gpus: which.
        stop: set by whoever wants the end.
        driver: sets a compute mode back, at the end and on a node that is given back alone; knows who uses a GPU.
        readiness: is told what is in the way.
    """
    told, users = readiness or Readiness(), functools.partial(clearing.users, driver)

    async def serve(gpu: GPUUID) -> None:
        each = daemon.Daemon(gpu, settings, stop, users=users, readiness=told)
        await each.run()
        await each.clear(driver)

    waits = functools.partial(told.tell, "MPS daemons")
    poll_seconds = min(lock.POLL_SECONDS, settings.look_seconds)
    async with lock.held(settings.root, stop, waits=waits, poll_seconds=poll_seconds) as held:
        if not held:
            return
        served: dict[GPUUID, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while not stop.is_set():
                for gpu in sorted(await _found(gpus, frozenset(served), told) - frozenset(served)):
                    served[gpu] = group.create_task(serve(gpu))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(settings.look_seconds):
                        await stop.wait()
        if await clearing.marked(settings.root):
            await clearing.finish(settings.root)


class Lister(Protocol):
    """Knows the node's GPUs and its driver (`gpus.hardware.Hardware`)."""

    async def driver(self) -> Driver:
        """Return the driver. Raises TemporaryError while it is not there."""

    async def devices(self) -> tuple[Device, ...]:
        """All. Raises TemporaryError while the driver is not there."""


def shared(hardware: Lister) -> GPUs:
    """Return the GPUs that can be shared: those in MIG mode have no daemon.

    An excluded GPU has one, and nobody its pipe.

    Under a driver that is too old nothing can be shared, and its daemon may not know what it is asked for.
    """

    async def found() -> frozenset[GPUUID]:
        old = versions.unfit((await hardware.driver()).driver_version)
        if old is not None:
            raise errors.TemporaryError(old, delay_seconds=daemon.LOOK_SECONDS)
        return frozenset(device.uuid for device in await hardware.devices() if not device.mig)

    return found


def inherited(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what would limit the daemons' servers or hide GPUs from them."""
    found = os.environ if environment is None else environment
    return {name: value for name, value in found.items() if not name.startswith(("CUDA_", "NVIDIA_"))}


def stopping() -> asyncio.Event:
    """Set by SIGTERM and SIGINT, from now on."""
    event = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


async def _found(gpus: GPUs, known: frozenset[GPUUID], readiness: Readiness) -> frozenset[GPUUID]:
    try:
        found = await gpus()
    except errors.TemporaryError as error:
        readiness.tell("waiting for the driver", str(error))
        return known
    readiness.tell("waiting for the driver", None)
    return found
