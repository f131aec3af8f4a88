"""What the stand-in's MPS daemon says, and how it reaches its standard output: by the FIFO `log` of the pipe directory.

As NVIDIA's does it (run: 550 to 580): everything that is said is a record in that FIFO, whose mode is 0777, and one
reader prints the records. What is no record ends the reader, and from then on nothing is printed. Under `-d` the lines
go to `control.log` and `server.log`; under `-f` to the standard output.
"""

import asyncio
import os
import struct
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

FIFO: Final = "log"
STAND_IN_LINE: Final = "A stand-in for tests: no GPU and no driver of NVIDIA is involved."
_HEADER: Final = struct.Struct("<10IQ")
"""Kind, PID, year, month, day, weekday, hour, minute, second, millisecond, and the length of the text that follows."""
NEWLINE: Final = "\n"
_MAGIC: Final = 0xABCDE000
_WHO: Final = {0: "Control", 1: "Server", 3: "Other"}


def record(kind: int, pid: int, text: str) -> bytes:
    """One thing said, for the FIFO."""
    now, said = datetime.now(UTC), text.encode()
    moment = (now.year, now.month, now.day, now.isoweekday(), now.hour, now.minute, now.second, now.microsecond // 1000)
    return _HEADER.pack(_MAGIC | kind, pid, *moment, len(said)) + said


def tell_another(pipe: Path, text: str) -> None:
    """Say something by the FIFO of a daemon that runs there, if one reads it."""
    try:
        handle = os.open(pipe / FIFO, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(handle, "wb", buffering=0) as file:
        file.write(record(3, os.getpid(), text))


class Recorder:
    """Reads the FIFO and prints its records.

    Args:
        pipe: the pipe directory.
        logs: the log directory under `-d`; None: to the standard output.
    """

    def __init__(self, pipe: Path, logs: Path | None) -> None:
        self._path, self._logs = pipe / FIFO, logs
        self._handle: int | None = None
        self._new = b""

    def start(self) -> None:
        """Make the FIFO, and read it from now on."""
        self._path.unlink(missing_ok=True)
        os.mkfifo(self._path)
        self._path.chmod(0o777)
        self._handle = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._handle, self._read)
        if self._logs is None:
            print(STAND_IN_LINE, flush=True)

    def say(self, kind: int, pid: int, text: str) -> None:
        """Print a line, unless something that was no record has ended this."""
        self._read()  # what others have said before
        if self._handle is not None:
            self._print(kind, pid, datetime.now(UTC), text)

    def close(self) -> None:
        """Read no more."""
        if self._handle is not None:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None

    def _read(self) -> None:
        if self._handle is None:
            return
        try:
            self._new += os.read(self._handle, 65536)
        except BlockingIOError:
            return
        while len(self._new) >= _HEADER.size:
            kind, pid, year, month, day, _, hour, minute, second, milli, size = _HEADER.unpack_from(self._new)
            if kind & ~0xF != _MAGIC:
                self.close()
                return
            if len(self._new) < _HEADER.size + size:
                return
            text = self._new[_HEADER.size : _HEADER.size + size].decode(errors="replace")
            self._new = self._new[_HEADER.size + size :]
            self._print(kind & 0xF, pid, datetime(year, month, day, hour, minute, second, milli * 1000, UTC), text)

    def _print(self, kind: int, pid: int, moment: datetime, text: str) -> None:
        stamp = moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        line = f"[{stamp} {_WHO.get(kind, 'Other')} {pid:5d}] {text.rstrip(NEWLINE)}\n"
        if self._logs is None:
            sys.stdout.write(line)
            sys.stdout.flush()
        else:
            with (self._logs / ("server.log" if kind == 1 else "control.log")).open("a") as file:
                file.write(line)
