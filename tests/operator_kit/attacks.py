"""What somebody would try who decides what the reading process does: the bytes name it.

`python attacks.py [FLAG]... DESCRIPTOR` is the reading process with this work in the place of its own.
"""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cotenant_operator.parsing import tasks, zygote


def work(_: tasks.Task, data: bytes) -> tasks.Answer:
    """Do what the bytes name; its words are the answer's problem."""
    name, argument = [*data.decode().split(" ", 1), ""][:2]
    try:
        return tasks.refused(f"did it: {ATTACKS[name](argument)}")
    except (OSError, ValueError) as error:
        return tasks.refused(f"refused: {error}")


def _lift(_: str) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def _call(number: int, *arguments: int) -> int:
    """A system call that Python has no name for."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(libc.syscall(number, *arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _fill(_: str) -> int:
    return len(bytearray(1 << 34))


def _grow(_: str) -> int:
    kept = []
    while True:
        kept.append(os.urandom(0) + bytes(1 << 20))


def _spin(_: str) -> int:
    while True:
        pass


def _crash(_: str) -> int:
    return ctypes.string_at(0)[0]


def _flood(_: str) -> int:
    """Answer without an end, on whichever descriptor the answer goes."""
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            while True:
                os.write(descriptor, b"x" * 65536)
    return 0


MEMORY_OF, TRACE = (310, 101) if os.uname().machine == "x86_64" else (270, 117)
ATTACKS: dict[str, Callable[[str], object]] = {
    "read": lambda path: Path(path).read_text(),
    "list": os.listdir,
    "write": lambda path: Path(path).write_text("x"),
    "connect": lambda port: socket.socket().connect(("127.0.0.1", int(port))),
    "pipe": lambda _: os.pipe(),
    "fork": lambda _: os.fork(),
    "run": lambda _: os.execv(sys.executable, [sys.executable, "-c", ""]),  # noqa: S606 - it is to be refused
    "kill": lambda pid: os.kill(int(pid), signal.SIGKILL),
    "trace": lambda pid: _call(TRACE, 16, int(pid), 0, 0),
    "memory": lambda pid: _call(MEMORY_OF, int(pid), 0, 0, 0, 0, 0),
    "limits": _lift,
    "environment": lambda _: dict(os.environ),
    "fill": _fill,
    "grow": _grow,
    "spin": _spin,
    "crash": _crash,
    "flood": _flood,
    "exit": lambda code: os._exit(int(code)),
    "say": lambda text: text,
}


def _serve(flags: Sequence[str], control: socket.socket) -> None:
    """`short`: the node never has what a child may take. `busy`: a child has half a second, however little it gets;
    `patient`: ten minutes.
    """
    control.send(tasks.Ready(version="attacks").text())
    wall_seconds = 0.5 if "busy" in flags else 600.0 if "patient" in flags else zygote.WALL_SECONDS
    has_memory = (lambda _: False) if "short" in flags else None
    zygote.serve(control, work, wall_seconds=wall_seconds, has_memory=has_memory)


if __name__ == "__main__":
    _serve(sys.argv[1:-1], socket.socket(fileno=int(sys.argv[-1])))
