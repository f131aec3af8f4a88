"""What namespaces have booked, and for how long: shares and memory of bound pods, integrated over time. Pure."""

import itertools
from dataclasses import dataclass
from typing import Final

from cotenant_api.names import HUNDREDTHS, Namespace
from cotenant_extender.ledger import claims

BYTES_PER_MIB = 1024 * 1024
KEPT_SECONDS: Final = 3600.0
"""Longer than between two scrapes of Prometheus: namespaces come and go, and each that ever was costs memory."""


@dataclass(slots=True)
class Account:
    """One namespace.

    Attributes:
        share: hundredths that are booked now; `memory_mib`: MiB.
        gpu_seconds: whole GPUs times seconds since the start; `byte_seconds`: bytes times seconds.
    """

    share: int = 0
    memory_mib: int = 0
    gpu_seconds: float = 0.0
    byte_seconds: float = 0.0

    @property
    def books(self) -> bool:
        """Whether anything is booked now."""
        return bool(self.share or self.memory_mib)


class Usage:
    """The accounts of namespaces that book something here, or have done so lately.

    Attributes:
        until: the time up to which is counted.
        grown: namespaces whose accounts have grown by the last `advance`.
        forgotten: namespaces whose accounts the last `advance` has forgotten.
    """

    def __init__(self) -> None:
        self.accounts: dict[Namespace, Account] = {}
        self.until = 0.0
        self.grown: list[Namespace] = []
        self.forgotten: list[Namespace] = []
        self._booking: dict[Namespace, Account] = {}
        self._idle: dict[Namespace, float] = {}

    def count(self, claim: claims.Claim, sign: int) -> None:
        """Count a claim that begins (1) or ends (-1)."""
        if claim.kind is not claims.Kind.BOUND:
            return
        namespace = claim.namespace
        account = self._booking[namespace] = self.accounts.setdefault(namespace, Account())
        self._idle.pop(namespace, None)
        account.share += sign * sum(booking.share for booking in claim.bookings)
        account.memory_mib += sign * sum(booking.memory_mib for booking in claim.bookings)
        if account == Account():
            del self._booking[namespace], self.accounts[namespace]

    def start(self, *, now: float) -> None:
        """Count from now on: what was booked before is another's to count."""
        self.until = now

    def advance(self, *, now: float) -> None:
        """Time has passed with what is booked now: call it every second. A clock that went back adds nothing."""
        seconds, self.until = max(now - self.until, 0.0), now
        self.grown = list(self._booking) if seconds else []
        for account in self._booking.values():
            account.gpu_seconds += seconds * account.share / HUNDREDTHS
            account.byte_seconds += seconds * account.memory_mib * BYTES_PER_MIB
        for namespace in [name for name, account in self._booking.items() if not account.books]:
            del self._booking[namespace]
            self._idle[namespace] = now
        self.forgotten = list(itertools.takewhile(lambda name: self._idle[name] <= now - KEPT_SECONDS, self._idle))
        for namespace in self.forgotten:
            del self._idle[namespace], self.accounts[namespace]
