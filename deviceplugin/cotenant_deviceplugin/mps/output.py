"""Keeps what a control daemon says in a file that takes no more room than a bound, and loses nothing of the end.

Under `-f` the daemon and its servers say everything on their standard output: some hundred bytes for each question of
the agent's alone. The daemon writes to the file itself, always at its end: it outlives the process that started it, and
a pipe that nobody reads would end it or hold it up. So the file is never moved nor emptied. What is old is given back
to the file system by a hole at the file's beginning: its size grows, and its end stays where it is, whoever writes.
"""

import ctypes
import os
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 1024 * 1024
"""What stays of the file at least; it takes twice as much room before a hole is made."""
_BEFORE: Final = ".1"
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""Modes of fallocate(2)."""
_PAGE_BYTES: Final = 4096


def before(path: Path) -> Path:
    """Where daemons' processes of another version lay aside what stood in the file."""
    return path.with_name(path.name + _BEFORE)


def opened(path: Path) -> int:
    """Return the file, for a daemon's standard output. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def bound(path: Path, max_bytes: int = MAX_BYTES) -> None:
    """Give back what is older than the last `max_bytes`, if the file takes more than twice that room.

    Raises OSError where the file system makes no holes (it is on a tmpfs, ext4, XFS or Btrfs as a rule): then the file
    is emptied, or it would fill what the whole node shares, and what it held is lost.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        now = os.fstat(file)
        if now.st_blocks * 512 <= 2 * max_bytes:
            return
        try:
            punch(file, (now.st_size - max_bytes) // _PAGE_BYTES * _PAGE_BYTES)
        except OSError:
            os.ftruncate(file, 0)
            raise
    finally:
        os.close(file)


def punch(file: int, length: int) -> None:
    """Make a hole of the first bytes of a file; what is read of a hole is zeros. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    mode = ctypes.c_int(_PUNCH_HOLE | _KEEP_SIZE)
    if length > 0 and library.fallocate(ctypes.c_int(file), mode, ctypes.c_int64(0), ctypes.c_int64(length)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
