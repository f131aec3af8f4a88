"""What namespaces have booked, and for how long: shares and memory of bound pods, integrated over time. Pure."""

from collections import defaultdict
from dataclasses import dataclass

from cotenant_api.names import HUNDREDTHS, Namespace
from cotenant_extender.ledger import claims

BYTES_PER_MIB = 1024 * 1024


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


class Usage:
    """The accounts of all namespaces that ever booked something here."""

    def __init__(self) -> None:
        self.accounts: defaultdict[Namespace, Account] = defaultdict(Account)
        self._until = 0.0

    def count(self, claim: claims.Claim, sign: int) -> None:
        """Count a claim that begins (1) or ends (-1)."""
        if claim.kind is claims.Kind.BOUND:
            account = self.accounts[claim.namespace]
            account.share += sign * sum(booking.share for booking in claim.bookings)
            account.memory_mib += sign * sum(booking.memory_mib for booking in claim.bookings)

    def start(self, *, now: float) -> None:
        """Count from now on: what was booked before is another's to count."""
        self._until = now

    def advance(self, *, now: float) -> None:
        """Time has passed with what is booked now: call it every second. A clock that went back adds nothing."""
        seconds, self._until = max(now - self._until, 0.0), now
        for account in self.accounts.values():
            account.gpu_seconds += seconds * account.share / HUNDREDTHS
            account.byte_seconds += seconds * account.memory_mib * BYTES_PER_MIB
