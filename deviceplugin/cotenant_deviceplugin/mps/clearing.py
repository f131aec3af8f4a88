"""What is left of Cotenant on a node that is given back, cleared up GPU by GPU: by the agent, or by the MPS daemons.

The agent marks such a node, and notes which pods still hold which GPU. Each of the two clears up a GPU whose control
daemon has ended and that nobody holds, so whoever ends last leaves nothing behind. Nothing is cleared on a node that is
not marked: containers have the folders mounted.
"""

import asyncio
import json
import logging
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from cotenant_api import errors
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin import files
from cotenant_deviceplugin.gpus.hardware import ComputeMode, Usage
from cotenant_deviceplugin.mps import layout

DELAY_SECONDS = 1.0

log = logging.getLogger(__name__)


class Driver(Protocol):
    """Sets compute modes, and knows who uses GPUs (`gpus.hardware.ManagedHardware`)."""

    async def usage_of(self, gpu: GPUUID) -> Usage:
        """Return what one GPU does now. Raises TemporaryError where it cannot be read."""

    async def set_compute_mode(self, gpu: GPUUID, mode: ComputeMode) -> None:
        """Set it. Raises TemporaryError."""


class Modes:
    """What each GPU's compute mode was before it was first set.

    Args:
        root: see `layout`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    async def read(self, gpu: GPUUID) -> ComputeMode | None:
        """Return the mode of before; None: it was never changed, or is as it was. Raises TemporaryError."""
        text = await asyncio.to_thread(files.read, layout.compute_mode(self._root, gpu))
        # What cannot be read would be set by nobody: DEFAULT is what a driver starts with.
        return None if text is None else _parsed(text)

    async def note(self, gpu: GPUUID, mode: ComputeMode) -> ComputeMode:
        """Keep this mode, if none is kept; the one that is kept. Raises TemporaryError."""
        kept = await self.read(gpu)
        if kept is None:
            await asyncio.to_thread(files.replace, layout.compute_mode(self._root, gpu), mode)
        return kept or mode

    async def forget(self, gpu: GPUUID) -> None:
        """Forget a GPU's mode of before: it is as it was. Raises TemporaryError."""
        await asyncio.to_thread(_unlink, layout.compute_mode(self._root, gpu))


async def mark(root: Path, holders: Mapping[GPUUID, Collection[PodUID]]) -> None:
    """Say that the node is given back, and which pods hold its GPUs. Raises TemporaryError."""
    text = json.dumps({gpu: sorted(pods) for gpu, pods in sorted(holders.items()) if pods})
    if await asyncio.to_thread(files.read, layout.given_back(root)) != text:
        await asyncio.to_thread(files.replace, layout.given_back(root), text)


async def holders(root: Path, gpu: GPUUID) -> frozenset[PodUID]:
    """Return the pods that held a GPU when the node was marked last. Raises TemporaryError."""
    path = layout.given_back(root)
    text = await asyncio.to_thread(files.read, path)
    try:
        # An agent of an earlier release leaves the mark empty.
        return frozenset(json.loads(text or "{}").get(gpu, ()))
    except (ValueError, TypeError, AttributeError) as error:
        raise errors.TemporaryError(f"{path} cannot be read: {error}", delay_seconds=DELAY_SECONDS) from error


async def unmark(root: Path) -> None:
    """Say that it is not. Raises TemporaryError."""
    await asyncio.to_thread(_unlink, layout.given_back(root))


async def marked(root: Path) -> bool:
    """Return whether the node is given back."""
    return await asyncio.to_thread(layout.given_back(root).exists)


async def left(root: Path) -> tuple[GPUUID, ...]:
    """Return the GPUs of which something is left."""
    return await asyncio.to_thread(_folders, root)


async def clear(root: Path, gpu: GPUUID, driver: Driver, *, patience_seconds: float = 0.0) -> None:
    """Leave nothing of a GPU whose control daemon has ended and that no tenant holds.

    What is in the way is told, and everything stays as it is: who uses the GPU would go on without any limit. Whoever
    uses it is waited for so long: the driver lists a process for a moment after its end.
    """
    try:
        using = await _lasting(driver, gpu, patience_seconds)
        if using:
            log.error("%s is not as it was: used by %s", gpu, ", ".join(map(str, sorted(using))))
            return
        before = await Modes(root).read(gpu)
        if before is not None:
            await driver.set_compute_mode(gpu, before)
        await asyncio.to_thread(shutil.rmtree, root / gpu)
    except FileNotFoundError:
        return  # the other of the two was quicker
    except (errors.TemporaryError, OSError) as error:
        log.error("%s is not as it was: %s", gpu, error)  # noqa: TRY400  # the system's words say it all
    else:
        log.info("%s is given back%s", gpu, f", in compute mode {before}" if before else "")


async def finish(root: Path) -> None:
    """Take the mark away once nothing is left for anybody to clear. Raises TemporaryError."""
    if not await left(root):
        await unmark(root)


async def _lasting(driver: Driver, gpu: GPUUID, patience_seconds: float) -> frozenset[int]:
    """Return who still uses a GPU after a while at most. Raises TemporaryError."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_seconds
    while (using := await users(driver, gpu)) and loop.time() < end:  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(DELAY_SECONDS)
    return using


async def users(driver: Driver, gpu: GPUUID) -> frozenset[int]:
    """Return the PIDs of all that use a GPU. Raises TemporaryError: nobody can say."""
    return frozenset(process.pid for process in (await driver.usage_of(gpu)).processes)


def _parsed(text: str) -> ComputeMode:
    try:
        return ComputeMode(text.strip())
    except ValueError:
        return ComputeMode.DEFAULT


def _folders(root: Path) -> tuple[GPUUID, ...]:
    return tuple(GPUUID(path.name) for path in sorted(root.glob("*")) if path.is_dir())


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise errors.TemporaryError(f"{path}: {error.strerror}", delay_seconds=DELAY_SECONDS) from error
