"""End a control daemon that does not heed words, and what is left of its session."""

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path

from cotenant_api.names import GPUUID

log = logging.getLogger(__name__)


async def end(pid: int, gpu: GPUUID, *, patience_seconds: float, quit_seconds: float) -> None:
    """Return when a control daemon has ended, and its servers with it.

    Args:
        pid: of the daemon, child of this process or not.
        gpu: named in what is told.
        patience_seconds: how long it may take by itself.
        quit_seconds: how long it may take after SIGTERM, before it gets SIGKILL.
    """
    leads = session(pid) == pid
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        handle = None
    if handle is not None:
        try:
            await _signal(handle, f"{gpu}: control daemon {pid}", patience_seconds, quit_seconds)
        finally:
            os.close(handle)
    if leads or handle is None:
        # A server that initializes outlives its daemon. It is in the daemon's own session, and in no other.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def session(pid: int) -> int | None:
    """Return the session of a process; None: it has ended."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def process_lives(pid: int) -> bool:
    """Return whether a process of the host lives, a zombie not; needs the host's PID namespace."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b")")[2].split(maxsplit=1)[0] not in {b"Z", b"X"}


async def _signal(handle: int, what: str, patience_seconds: float, quit_seconds: float) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        for number, seconds in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, quit_seconds)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended.wait()
            if ended.is_set():
                return
            log.warning("%s does not quit; %s", what, number.name)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
        await ended.wait()
    finally:
        loop.remove_reader(handle)
