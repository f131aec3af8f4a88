"""What every part at the rim shares."""

from dataclasses import dataclass

from cotenant_extender import later, leadership, metrics, timeline, turns
from cotenant_extender.kube import client
from cotenant_extender.ledger import ledger


@dataclass(frozen=True, kw_only=True)
class Context:
    """The state, the way to the API server, and the time.

    Attributes:
        clock: seconds since the epoch that pass evenly (see `timeline`).
        latest: as `clock`, or the wall clock where that is later: by it the Lease of kube-scheduler expires.
        stopwatch: seconds since any time, by a clock that never goes back.
        urgency: which writes go before those that can wait.
        freshness: waits until the ledger's fleet is current.
        lease_path: of the Lease of kube-scheduler.
    """

    ledger: ledger.Ledger
    leadership: leadership.Leadership
    api: client.Client
    metrics: metrics.Metrics
    clock: timeline.Clock
    latest: timeline.Clock
    stopwatch: timeline.Clock
    urgency: later.Urgency
    freshness: turns.Freshness
    lease_path: str
