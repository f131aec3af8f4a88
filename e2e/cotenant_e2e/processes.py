"""Starts and stops background processes. Knows nothing of Kubernetes.

A process is its PID and its kernel start time: a PID that the kernel gave to another process is never signalled.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant_api import errors
from cotenant_e2e import waiting

KILL_SECONDS = 10


@dataclass(frozen=True)
class Process:
    """A background process. `started`: kernel start time in clock ticks; empty for one that ended at once."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> "Process":
        """Return the process that has this PID now."""
        return cls(pid, _start_time(pid))

    def alive(self) -> bool:
        """Return whether it still runs (a zombie does not)."""
        return bool(self.started) and _start_time(self.pid) == self.started

    def rss_mib(self) -> int:
        """Resident memory in MiB; 0 when it has ended."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20 if self.alive() else 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def stop(self, *, grace_seconds: float = 10) -> None:
        """SIGTERM, after the grace time SIGKILL; returns when it has ended."""
        self.signal(signal.SIGTERM)
        try:
            waiting.wait_until(
                lambda: not self.alive(), f"end of process {self.pid}", grace_seconds, every_seconds=0.02
            )
        except waiting.NotReadyError:
            self.kill()

    def kill(self) -> None:
        """SIGKILL; returns when it has ended."""
        self.signal(signal.SIGKILL)
        waiting.wait_until(lambda: not self.alive(), f"end of process {self.pid}", KILL_SECONDS, every_seconds=0.01)


def start(argv: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> Process:
    """Start a process that outlives this one, in a session of its own; its output is appended to the log file.

    Raises:
        PermanentError: the program cannot be started.
    """
    program = shutil.which(argv[0]) or argv[0]
    opened = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        # Not subprocess.Popen: that object would have to be kept for as long as the process runs.
        pid = os.posix_spawn(
            program,
            list(argv),
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), opened, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )
    except OSError as error:
        raise errors.PermanentError(f"cannot start {argv[0]}: {error.strerror}") from error
    return Process.of(pid)


def with_variable(name: str, value: str) -> list[Process]:
    """Every process of this user whose environment holds the variable with this value."""
    wanted = f"{name}={value}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in variables:
            found.append(Process.of(int(entry.name)))
    return found


def last_line(log: Path) -> str:
    """Return the last line of a log file that is not empty; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _start_time(pid: int) -> str:
    """Kernel start time of a live process; empty when it is gone or a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        return start_time_of(Path(f"/proc/{pid}/stat").read_text())
    except OSError:
        return ""


def start_time_of(stat: str) -> str:
    """Return the start time in the text of /proc/PID/stat; empty for one that has ended.

    A program's name may hold `)` and spaces. The first thread may have ended (`Z`) while others still hold ports.
    """
    fields = stat.rpartition(")")[2].split()
    state, threads, started = fields[0], int(fields[17]), fields[19]
    return "" if state == "X" or (state == "Z" and threads <= 1) else started
