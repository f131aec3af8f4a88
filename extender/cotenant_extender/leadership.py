"""Whether this extender leads: it does iff kube-scheduler beside it holds their Lease. Pure.

There is no election of its own. kube-scheduler's holder identity is its host name, `_` and a UUID; the extender shares
the host name (the pod's). It leads until the Lease that it saw last expires.

A Binding that is sent while a Lease is held is answered before that Lease expires, so whoever leads next never meets
one in flight, except after a Lease was given back early or this process was started again. Then a new leader waits
before it lists, if there is a pod whose Binding could be in flight: `SETTLE_SECONDS`, and until the Lease of the former
leader would have expired, who may have been paused and not know that it was given back.

It serves in one term, from when it has taken over until the Lease has another holder or expires. An extender that was
paused may wake when kube-scheduler beside it holds the Lease again: others led in between, and what it knew is old.
"""

import math
from typing import Final, NamedTuple

from cotenant_extender import records

BINDING_SECONDS = 4.0
"""How long a Binding may take, at most."""
MARGIN_SECONDS = 0.5
SETTLE_SECONDS = BINDING_SECONDS + 1.0


class Term(NamedTuple):
    """One process of kube-scheduler holds the Lease; `acquired` in seconds since the epoch, 0: unknown."""

    holder: str
    acquired: float


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
        self._others_until = 0.0
        self._missed = True

    def observe(self, lease: records.Lease | None, *, listed: bool = False) -> None:
        """The Lease as it is; None: there is none. `listed`: who held it since the last time may not have been seen."""
        if lease is None:
            self._missed = self._lease is not None and (self._missed or listed)
        else:
            self._missed = self._missed or (listed and _term(lease) != _term(self._lease))
            if lease.holder:
                self._held(lease)
        self._lease = lease

    def _held(self, lease: records.Lease) -> None:
        """Somebody holds it."""
        if not self._ours(lease):
            self._others_until = max(self._others_until, lease.renewed + lease.duration_seconds)
        elif self._missed or lease.acquired < self._others_until:
            # Taken before it would have expired: given back, perhaps after renewals that were not seen.
            self._others_until = max(self._others_until, lease.acquired + lease.duration_seconds)
        self._missed = False

    @property
    def others_until(self) -> float:
        """Until when another may take itself for the leader, in seconds since the epoch; 0: nobody may.

        Who gave the Lease back early, or was paused, may not have heard of it. Of a holder that was never seen it is
        known only that it renewed the Lease last before the present holder took it.
        """
        return 0.0 if self.assume else self._others_until

    def remaining_seconds(self, *, now: float) -> float:
        """For how long it leads; 0: it does not."""
        if self.assume:
            return math.inf
        lease = self._lease
        if lease is None or not self._ours(lease):
            return 0.0
        return max(lease.renewed + lease.duration_seconds - now, 0.0)

    def _ours(self, lease: records.Lease) -> bool:
        return lease.holder.startswith(f"{self.identity}_")

    def leads(self, *, now: float) -> bool:
        """Whether it leads."""
        return self.remaining_seconds(now=now) > 0.0

    @property
    def term(self) -> Term | None:
        """The present term, if it is its own."""
        if self.assume:
            return _ASSUMED
        return _term(self._lease) if self._lease is not None and self._ours(self._lease) else None

    def serves(self, *, now: float) -> bool:
        """Whether it leads, and has taken over in this very term."""
        return self.served is not None and self.served == self.term and self.leads(now=now)

    def binding_seconds(self, term: Term | None, *, now: float) -> float:
        """How long a Binding may take that is sent now; 0: none may be sent. `term`: in which it was decided on."""
        if term is None or term != self.served or not self.serves(now=now):
            return 0.0
        return max(min(BINDING_SECONDS, self.remaining_seconds(now=now) - MARGIN_SECONDS), 0.0)

    def describe(self) -> str:
        """Who holds the Lease, for a person."""
        if self._lease is None:
            return "there is no Lease of kube-scheduler"
        return f"the Lease of kube-scheduler is held by {self._lease.holder or 'nobody'}"


def _term(lease: records.Lease | None) -> Term | None:
    return None if lease is None else Term(lease.holder, lease.acquired)
