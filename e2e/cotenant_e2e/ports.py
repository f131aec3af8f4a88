"""Free TCP ports on loopback, held until they are used: two clusters that start at once never choose the same.

A held port is a socket that is bound and never listens. It is bound exclusively and only then marked SO_REUSEADDR, so
that the component, whose listener has SO_REUSEADDR too (Go, asyncio and uvicorn set it), may listen there. Nobody else
may, and the port stays the component's while it is killed and restarted.
"""

import itertools
import random
import socket
from collections.abc import Iterable
from pathlib import Path

from cotenant_api import errors

LOOPBACK = "127.0.0.1"
LOWEST = 10_000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
ATTEMPTS = 1000


class Ports:
    """The ports of one cluster by name. Close it when the cluster stops or is left to itself."""

    def __init__(self, host: str = LOOPBACK) -> None:
        self.host = host
        self._sockets: dict[str, socket.socket] = {}

    def hold(self, name: str, candidates: Iterable[int]) -> int:
        """Hold the first candidate that is free, under this name.

        Raises:
            PermanentError: none is free.
        """
        tried = 0
        for port in candidates:
            tried = port
            held = _bound(self.host, port)
            if held:
                self.release(name)
                self._sockets[name] = held
                return int(held.getsockname()[1])
        raise errors.PermanentError(
            f"port {tried} of {self.host} is in use: stop what listens there, or let a free port be chosen"
        )

    def release(self, name: str) -> None:
        """No longer hold the port of this name, if any."""
        if held := self._sockets.pop(name, None):
            held.close()

    def close(self) -> None:
        """Hold nothing any more."""
        for name in list(self._sockets):
            self.release(name)


def candidates(*, first: int, below: int) -> Iterable[int]:
    """Ports from `first` upwards, going round below `below`; `ATTEMPTS` of them."""
    span = below - LOWEST
    return (LOWEST + (first - LOWEST + step) % span for step in range(min(ATTEMPTS, span)))


def free() -> Iterable[int]:
    """Candidates outside of the range from which the kernel takes the ports of outgoing connections."""
    below = int(EPHEMERAL_RANGE.read_text().split()[0])
    if below <= LOWEST + ATTEMPTS:
        return itertools.repeat(0, ATTEMPTS)
    return candidates(first=random.SystemRandom().randrange(LOWEST, below), below=below)


def _bound(host: str, port: int) -> socket.socket | None:
    held = socket.socket()
    try:
        held.bind((host, port))
    except OSError:
        held.close()
        return None
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held
