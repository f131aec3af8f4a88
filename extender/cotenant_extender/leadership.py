"""Whether this extender leads: it does iff kube-scheduler beside it holds their Lease. Pure.

There is no election of its own. kube-scheduler's holder identity is its host name, `_` and a UUID; the extender shares
the host name (the pod's). It leads until the Lease that it saw last expires.

A Binding that is sent while a Lease is held is answered before that Lease expires, so whoever leads next never meets
one in flight, except after a Lease was given back early or this process was started again. Then a new leader waits
before it lists, if there is a pod whose Binding could be in flight: `SETTLE_SECONDS`, and until the Lease of the former
leader would have expired, who may have been paused and not know that it was given back.
"""

import math

from cotenant_extender import records

BINDING_SECONDS = 4.0
"""How long a Binding may take, at most."""
MARGIN_SECONDS = 0.5
SETTLE_SECONDS = BINDING_SECONDS + 1.0


class Leadership:
    """What is known of the scheduler's Lease.

    Args:
        identity: the host name that kube-scheduler's holder identity starts with.
        assume: lead without a Lease: where there is one scheduler without leader election.
    """

    def __init__(self, identity: str, *, assume: bool) -> None:
        self.identity, self.assume = identity, assume
        self._lease: records.Lease | None = None
        self._others_until: float | None = None

    def observe(self, lease: records.Lease | None) -> None:
        """The Lease as it is; None: there is none."""
        known = self._others_until or 0.0
        if lease is not None and lease.holder and not self._ours(lease):
            self._others_until = max(known, lease.renewed + lease.duration_seconds)
        elif lease is not None and lease.holder and (self._others_until is None or lease.acquired < known):
            # Taken before it would have expired: given back, perhaps after renewals that were not seen.
            self._others_until = max(known, lease.acquired + lease.duration_seconds)
        else:
            self._others_until = known
        self._lease = lease

    @property
    def others_until(self) -> float:
        """Until when another may take itself for the leader, in seconds since the epoch; 0: nobody may.

        Who gave the Lease back early, or was paused, may not have heard of it. Of a holder that was never seen it is
        known only that it renewed the Lease last before the present holder took it.
        """
        return 0.0 if self.assume else self._others_until or 0.0

    @property
    def since(self) -> float:
        """When the present holder took the Lease, in seconds since the epoch; 0: unknown."""
        return 0.0 if self.assume or self._lease is None else self._lease.acquired

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

    def binding_seconds(self, *, now: float) -> float:
        """How long a Binding may take that is sent now; 0: none may be sent."""
        return max(min(BINDING_SECONDS, self.remaining_seconds(now=now) - MARGIN_SECONDS), 0.0)

    def describe(self) -> str:
        """Who holds the Lease, for a person."""
        if self._lease is None:
            return "there is no Lease of kube-scheduler"
        return f"the Lease of kube-scheduler is held by {self._lease.holder or 'nobody'}"
