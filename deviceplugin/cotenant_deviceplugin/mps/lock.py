"""Let one process of MPS daemons serve a folder at a time, however many are started: by an upgrade, or by hand.

Two would each start a control daemon for a GPU, or one would remove the sockets that the other's clients need. The lock
is on the folder itself, so that it leaves nothing behind, and the system takes it from a holder that dies.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def held(
    folder: Path, stop: asyncio.Event, *, waits: Callable[[str | None], None], poll_seconds: float = POLL_SECONDS
) -> AsyncGenerator[bool, None]:
    """Hold a folder's lock within the block, and wait for it before; False: `stop` was set first.

    Args:
        folder: it is made where it is not there.
        stop: ends the wait.
        waits: is told why the wait goes on, and None at its end.
        poll_seconds: between two attempts.
    """
    handle = None
    try:
        while not stop.is_set():
            reason, handle = _attempt(folder, handle)
            waits(reason)
            if reason is None:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(poll_seconds):
                    await stop.wait()
        yield not stop.is_set()
    finally:
        if handle is not None:
            os.close(handle)


def _attempt(folder: Path, handle: int | None) -> tuple[str | None, int | None]:
    """Why the lock is not held, and the folder's handle."""
    try:
        if handle is None:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return f"another process of MPS daemons serves {folder}; waiting for its end", handle
    except OSError as error:
        return f"{folder} cannot be locked: {error}", handle
    return None, handle
