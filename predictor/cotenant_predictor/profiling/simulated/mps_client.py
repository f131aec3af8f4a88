"""A client of the stand-in for the MPS control daemon: connected as long as its process lives."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Mapping
from pathlib import Path

from cotenant_predictor.profiling import mechanisms

SOCKET = "control"


class Client:
    """A connection, and what the server granted: never more than its default."""

    def __init__(
        self, connection: socket.socket, *, server: int, thread_percentage: int, memory_mib: int | None
    ) -> None:
        self._connection, self.server = connection, server
        self.thread_percentage, self.memory_mib = thread_percentage, memory_mib

    def close(self) -> None:
        """Leave."""
        self._connection.close()

    def require_no_fault(self) -> None:
        """Raise RuntimeError once a client of this server had a fatal fault, whichever it was."""
        if select.select([self._connection], [], [], 0)[0]:
            raise RuntimeError("CUDA error: an MPS client of this GPU had a fatal fault")


def connected(environment: Mapping[str, str]) -> Client | None:
    """Return a client of the daemon that the environment names.

    None where there is no daemon: then CUDA runs without MPS.

    Raises:
        RuntimeError: the server takes no clients, as one had a fatal fault.
    """
    path = Path(environment.get(mechanisms.PIPE_DIRECTORY, "")) / SOCKET
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    asked = {"client": os.getpid(), "threadPercentage": int(environment.get(mechanisms.THREAD_PERCENTAGE, 100))}
    connection.sendall(json.dumps(asked).encode() + b"\n")
    with connection.makefile() as answers:
        reply = json.loads(answers.readline())
    if "error" in reply:
        connection.close()
        raise RuntimeError(reply["error"])
    limits = [limit for limit in (reply["memoryMiB"], memory_limit_mib(environment)) if limit is not None]
    return Client(
        connection,
        server=reply["server"],
        thread_percentage=reply["threadPercentage"],
        memory_mib=min(limits, default=None),
    )


def memory_limit_mib(environment: Mapping[str, str]) -> int | None:
    """Return the limit of device 0, as `0=512M` or `0=2G`."""
    for pair in environment.get(mechanisms.MEMORY_LIMIT, "").split(","):
        device, _, size = pair.partition("=")
        if device == "0":
            return mib(size)
    return None


def mib(size: str) -> int:
    """`512M` or `2G`."""
    return int(size[:-1]) * (1024 if size.endswith("G") else 1)
