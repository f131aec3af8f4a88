"""Sends attacks with a tenant's own token, and half requests to our listeners, until it is told to stop."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Final, Self

from cotenant_api import errors
from cotenant_e2e.client import Client
from cotenant_e2e.hostile import measured
from cotenant_e2e.hostile.requests import Attack

SENDERS: Final = 4
HALVES: Final = 200
"""Half requests that are open at a time on each listener."""
_PAUSE_SECONDS: Final = 0.05


class Sender(AbstractContextManager["Sender"]):
    """Sends attacks for the block, at most `rate` a second."""

    def __init__(self, client: Client, attacks: Iterator[Attack], *, rate: float, ports: Sequence[int]) -> None:
        self._client, self._attacks, self._ports = client, attacks, tuple(ports)
        self._pause = SENDERS / rate
        self._taken: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._unanswered, self._halves = 0, 0
        self._stopped, self._next, self._counts = threading.Event(), threading.Lock(), threading.Lock()
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

    def sent(self) -> measured.Sent:
        """Return what was sent so far."""
        with self._counts:
            return measured.Sent(
                taken=dict(self._taken), refused=dict(self._refused), unanswered=self._unanswered, halves=self._halves
            )

    def _send(self) -> None:
        while not self._stopped.wait(self._pause):
            with self._next:
                attack = next(self._attacks)
            try:
                taken = self._client.is_taken(attack.method, attack.path, attack.body)
            except errors.TemporaryError:
                with self._counts:
                    self._unanswered += 1
                continue
            with self._counts:
                (self._taken if taken else self._refused)[attack.kind] += 1

    def _half(self) -> None:
        held: list[socket.socket] = []
        while not self._stopped.wait(_PAUSE_SECONDS):
            for port in self._ports:
                with suppress(OSError):
                    one = socket.create_connection(("127.0.0.1", port), timeout=1)
                    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: ")
                    held.append(one)
                    self._halves += 1
            for one in held[: max(len(held) - HALVES * len(self._ports), 0)]:
                one.close()
            held = held[-HALVES * len(self._ports) :]
        for one in held:
            one.close()
