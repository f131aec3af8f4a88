"""Runs the sender in a process of its own: Python would make the honest client wait while the sender encodes JSON."""

import multiprocessing
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Final, Self

from cotenant_api import errors
from cotenant_e2e import configuration
from cotenant_e2e.client import Client
from cotenant_e2e.components import Settings
from cotenant_e2e.hostile import attacks, measured, sender

_END_SECONDS: Final = 120
_ANSWER_SECONDS: Final = 60


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be sent.

    Attributes:
        settings: of the cluster.
        token: of the tenant.
        namespace: of the tenant.
        seed: of what is sent.
        rate: attacks a second, at most.
        ports: of listeners on loopback that get half requests.
    """

    settings: Settings
    token: str
    namespace: str
    seed: int
    rate: float
    ports: Sequence[int]


class Attacker(AbstractContextManager["Attacker"]):
    """Sends attacks for the block."""

    def __init__(self, order: Order) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_attack, args=(theirs, order), daemon=True)
        self._sent = measured.Sent(taken={}, refused={})

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.sent()
            self._ours.send(False)
            self._process.join(timeout=_END_SECONDS)
        self._process.kill()
        self._process.join()

    def sent(self) -> measured.Sent:
        """Return what was sent so far; after the block, what was sent until its end.

        Raises:
            PermanentError: the process has ended.
        """
        if self._process.exitcode == 0:
            return self._sent
        try:
            self._ours.send(True)
            if self._ours.poll(_ANSWER_SECONDS):
                self._sent = self._ours.recv()
                return self._sent
        except (EOFError, OSError) as error:
            raise errors.PermanentError(f"the attacking process has ended: {error!r}") from error
        raise errors.PermanentError(f"the attacking process does not answer within {_ANSWER_SECONDS} s")


def _attack(asked: Connection, order: Order) -> None:
    """Send until the other end says so; each time that it asks, say what was sent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is sent is deeper than what Python writes by default.
    sys.setrecursionlimit(10 * attacks.DEPTH)
    client = Client(order.settings.server, configuration.client_tls(order.settings, user=None), order.token)
    endless = attacks.endless(order.namespace, seed=order.seed)
    with sender.Sender(client, endless, rate=order.rate, ports=order.ports) as sending:
        while asked.recv():
            asked.send(sending.sent())
