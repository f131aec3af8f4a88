"""What is left of Cotenant on a node that is given back, cleared up GPU by GPU: by the agent, or by the MPS daemons.

The agent marks such a node. Each of the two clears up a GPU whose control daemon has ended, so whoever ends last leaves
nothing behind. Nothing is cleared on a node that is not marked: containers have the folders mounted.
"""

import asyncio
import logging
import shutil
from pathlib import Path
from typing import Protocol

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin import files
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import layout

DELAY_SECONDS = 1.0

log = logging.getLogger(__name__)


class Driver(Protocol):
    """Sets compute modes (`gpus.hardware.ManagedHardware`)."""

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


async def mark(root: Path) -> None:
    """Say that the node is given back. Raises TemporaryError."""
    if not await marked(root):
        await asyncio.to_thread(files.replace, layout.given_back(root), "")


async def unmark(root: Path) -> None:
    """Say that it is not. Raises TemporaryError."""
    await asyncio.to_thread(_unlink, layout.given_back(root))


async def marked(root: Path) -> bool:
    """Return whether the node is given back."""
    return await asyncio.to_thread(layout.given_back(root).exists)


async def left(root: Path) -> tuple[GPUUID, ...]:
    """Return the GPUs of which something is left."""
    return await asyncio.to_thread(_folders, root)


async def clear(root: Path, gpu: GPUUID, driver: Driver) -> None:
    """Leave nothing of a GPU whose control daemon has ended. What the driver refuses is told, and stays noted."""
    try:
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
