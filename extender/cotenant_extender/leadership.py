"""Whether this extender leads: it does iff kube-scheduler beside it holds their Lease. Pure.

There is no election of its own. kube-scheduler's holder identity is its host name, `_` and a UUID; the extender shares
the host name (the pod's). It leads until the Lease that it saw last expires.

That keeps two extenders from placing at once as long as clocks and processes run. It proves nothing about requests that
are under way: a Binding of a former leader may arrive minutes later. So a new leader fences every pod that may be bound
before it serves (see `takeover`); what is fenced was decided on by a resource version that is no longer the pod's.

The Lease's times and `now` are by the clock of one machine. Where that was set back, a renewal seems younger than it
is: it counts as so much older, and one that lies in the future does not count at all.

It serves in one term, from when it has taken over until the Lease has another holder or expires. An extender that was
paused may wake when kube-scheduler beside it holds the Lease again: others led in between, and what it knew is old.
"""

import math
from typing import Final, NamedTuple

from cotenant_extender import records

BINDING_SECONDS = 4.0
"""How long a reply to a Binding is waited for, at most."""
MARGIN_SECONDS = 0.5
FUTURE_SECONDS = 2.0
"""A renewal that is further ahead was written before the clock was set back."""


class Term(NamedTuple):
    """One process of kube-scheduler holds the Lease; `acquired` in seconds since the epoch, 0: unknown."""

    holder: str
    acquired: float

    @property
    def mark(self) -> str:
        """Return the words by which this term is recognised in an earmark; empty where there is no election."""
        return f"{self.holder}@{self.acquired:.6f}" if self.holder else ""


_ASSUMED: Final = Term("", 0.0)


class Leadership:
    """What is known of the scheduler's Lease.

    Args:
        identity: the host name that kube-scheduler's holder identity starts with.
        assume: lead without a Lease: where there is one scheduler without leader election.

    Attributes:
        served: the term in which it has taken over and not stepped down since.
    """

    def __init__(self, identity: str, *, assume: bool) -> None:
        self.identity, self.assume = identity, assume
        self.served: Term | None = None
        self._lease: records.Lease | None = None
        self._set_back_seconds = 0.0

    def observe(self, lease: records.Lease | None) -> None:
        """Take note of the Lease as it is; None: there is none."""
        if lease is None or self._lease is None or lease.renewed != self._lease.renewed:
            self._set_back_seconds = 0.0
        self._lease = lease

    def clock_was_set(self, *, by: float) -> None:
        """Note that the clock was set by so many seconds: a renewal that is known lasts no longer for it."""
        self._set_back_seconds += max(-by, 0.0)

    def remaining_seconds(self, *, now: float) -> float:
        """Return the seconds until the Lease expires; 0: this extender does not lead."""
        if self.assume:
            return math.inf
        lease = self._lease
        if lease is None or not self._ours(lease):
            return 0.0
        renewed = lease.renewed - self._set_back_seconds
        if renewed > now + FUTURE_SECONDS:
            return 0.0
        return max(renewed + lease.duration_seconds - now, 0.0)

    def _ours(self, lease: records.Lease) -> bool:
        return lease.holder.startswith(f"{self.identity}_")

    def leads(self, *, now: float) -> bool:
        """Return whether this extender leads."""
        return self.remaining_seconds(now=now) > 0.0

    @property
    def term(self) -> Term | None:
        """Return the present term, if it is this extender's own."""
        if self.assume:
            return _ASSUMED
        return _term(self._lease) if self._lease is not None and self._ours(self._lease) else None

    def confirmed_by(self, lease: records.Lease, *, mark: str) -> bool:
        """Return whether the Lease, read just now, is held in the term of a mark: then nobody leads after it."""
        return self.assume or Term(lease.holder, lease.acquired).mark == mark

    def serves(self, *, now: float) -> bool:
        """Return whether this extender leads, and has taken over in this very term."""
        return self.served is not None and self.served == self.term and self.leads(now=now)

    def binding_seconds(self, term: Term | None, *, now: float) -> float:
        """Return the seconds to wait for a Binding that was decided on in this term; 0: none may be sent."""
        if term is None or term != self.served or not self.serves(now=now):
            return 0.0
        return max(min(BINDING_SECONDS, self.remaining_seconds(now=now) - MARGIN_SECONDS), 0.0)

    def describe(self) -> str:
        """Return who holds the Lease, for a person."""
        if self._lease is None:
            return "there is no Lease of kube-scheduler"
        return f"the Lease of kube-scheduler is held by {self._lease.holder or 'nobody'}"


def _term(lease: records.Lease | None) -> Term | None:
    return None if lease is None else Term(lease.holder, lease.acquired)
