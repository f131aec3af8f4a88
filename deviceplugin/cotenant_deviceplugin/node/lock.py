"""One agent per node, however many are started by mistake: a file lock that the system frees when its holder dies."""

import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from cotenant_deviceplugin.clock import Clock

POLL_SECONDS = 1.0
SETTLE_SECONDS = 1.0
"""After a wait: kubelet must see the end of the earlier agent before the next one registers (k8s#127803)."""


@contextlib.asynccontextmanager
async def held(path: Path, *, clock: Clock, log: logging.Logger) -> AsyncGenerator[None, None]:
    """Hold the node's lock; while another agent holds it, wait. Raises OSError where the file cannot be opened."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _taken(handle):
            log.warning("another node agent runs on this node: waiting for its end (%s)", path)
            while not _taken(handle):
                await clock.sleep(POLL_SECONDS)
            log.warning("the other node agent has ended: taking over")
            await clock.sleep(SETTLE_SECONDS)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
