"""Sends attacks with a tenant's own token, and half requests to our listeners, until it is told to stop."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Final, Self

from cotenant_api import errors
from cotenant_e2e.client import APIError, Client
from cotenant_e2e.hostile.attacks import Attack

SENDERS: Final = 4
HALVES: Final = 200
"""Half requests that are open at a time on each listener."""
_PAUSE_SECONDS: Final = 0.05


class Attacker(AbstractContextManager["Attacker"]):
    """Attacks for the block, at most `rate` a second.

    Attributes:
        taken, refused: by kind, what the API server took and refused. `unanswered`: what it did not answer.
        halves: half requests that were sent.
    """

    def __init__(self, client: Client, attacks: Iterator[Attack], *, rate: float, ports: Sequence[int]) -> None:
        self._client, self._attacks, self._ports = client, attacks, tuple(ports)
        self._pause = SENDERS / rate
        self.taken: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.unanswered, self.halves = 0, 0
        self._stopped, self._next = threading.Event(), threading.Lock()
        senders = [threading.Thread(target=self._send, daemon=True) for _ in range(SENDERS)]
        self._threads = [*senders, threading.Thread(target=self._half, daemon=True)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def _send(self) -> None:
        while not self._stopped.wait(self._pause):
            with self._next:
                attack = next(self._attacks)
            try:
                self._client.request(attack.method, attack.path, attack.body)
            except APIError:
                self.refused[attack.kind] += 1
            except errors.TemporaryError:
                self.unanswered += 1
            else:
                self.taken[attack.kind] += 1

    def _half(self) -> None:
        held: list[socket.socket] = []
        while not self._stopped.wait(_PAUSE_SECONDS):
            for port in self._ports:
                with suppress(OSError):
                    one = socket.create_connection(("127.0.0.1", port), timeout=1)
                    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: ")
                    held.append(one)
                    self.halves += 1
            for one in held[: max(len(held) - HALVES * len(self._ports), 0)]:
                one.close()
            held = held[-HALVES * len(self._ports) :]
        for one in held:
            one.close()
