"""Which servers were ended in good order, as who keeps the daemons writes it before he ends one: `ROOT/UUID/ended`.

A server that is gone looks alike, whether it crashed under its clients or was ended when it had none. What the daemon
says of it may have been written by a tenant: see `logs`. This file is root's, and no tenant has it mounted.
"""

from collections.abc import Iterable
from pathlib import Path

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin import files
from cotenant_deviceplugin.mps import layout, signals

MAX_SERVERS = 64


def write(root: Path, gpu: GPUUID, pids: Iterable[int]) -> None:
    """Say that these servers are ended now, and none before them. Raises TemporaryError."""
    files.replace(layout.ended(root, gpu), " ".join(map(str, sorted(pids)[:MAX_SERVERS])))


def read(root: Path, gpu: GPUUID) -> frozenset[int]:
    """Return the PIDs of those that were ended last; none where nobody says so, or that cannot be read."""
    try:
        text = files.read(layout.ended(root, gpu)) or ""
    except errors.TemporaryError:
        return frozenset()
    return frozenset(int(word) for word in text.split()[:MAX_SERVERS] if word.isascii() and word.isdigit())


def members(session: int, proc: Path = Path("/proc")) -> frozenset[int]:
    """Return the processes of a session that live, beside its leader."""
    pids = (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())
    found = (pid for pid in pids if pid != session and signals.session(pid) == session)
    return frozenset(pid for pid in found if signals.process_lives(pid))
