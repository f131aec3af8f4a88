"""The ledger as it stands: one change after another, on disk before it counts."""

import asyncio
from collections.abc import Callable

from cotenant_api import errors
from cotenant_deviceplugin.binding.disk import Disk
from cotenant_deviceplugin.binding.ledger import InconsistentError, Ledger

DELAY_SECONDS = 1.0


class Book:
    """Keeps the ledger.

    Args:
        disk: where it survives.
        changed: called after each change.
    """

    def __init__(self, disk: Disk, changed: Callable[[], None]) -> None:
        self._disk = disk
        self._changed = changed
        self._lock = asyncio.Lock()
        self._ledger: Ledger | None = None
        self._writing: set[asyncio.Task[None]] = set()

    @property
    def ledger(self) -> Ledger:
        """What stands. Empty until it was opened."""
        return self._ledger or Ledger()

    async def open(self) -> None:
        """Read it, if it has not been."""
        async with self._lock:
            await self._open()

    async def commit(self, transition: Callable[[Ledger], Ledger]) -> None:
        """Change it; on disk when this returns. Whoever waits may be cancelled: what was begun is ended all the same.

        Raises TemporaryError where the disk fails, and where the transition is not possible any more.
        """
        task = asyncio.create_task(self._commit(transition))
        self._writing.add(task)
        task.add_done_callback(self._done)
        await asyncio.shield(task)

    async def _commit(self, transition: Callable[[Ledger], Ledger]) -> None:
        async with self._lock:
            await self._open()
            try:
                new = transition(self.ledger)
            except InconsistentError as error:
                text = f"what was decided does not fit any more: {error}"
                raise errors.TemporaryError(text, delay_seconds=DELAY_SECONDS) from error
            if new != self._ledger:
                await self._disk.write(new)
                self._ledger = new
                self._changed()

    async def _open(self) -> None:
        if self._ledger is None:
            self._ledger = await self._disk.read()
            self._changed()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        if not task.cancelled():
            # Marks it as seen: who waited was told, and who was cancelled asks again.
            task.exception()
