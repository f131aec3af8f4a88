"""What every part at the rim shares."""

from collections.abc import Callable
from dataclasses import dataclass

from cotenant_extender import later, leadership, metrics
from cotenant_extender.kube import client
from cotenant_extender.ledger import ledger


@dataclass(frozen=True, kw_only=True)
class Context:
    """The state, the way to the API server, and the time.

    Attributes:
        clock: seconds since the epoch.
        stopwatch: seconds since any time, by a clock that never goes back.
        urgency: which writes go before those that can wait.
    """

    ledger: ledger.Ledger
    leadership: leadership.Leadership
    api: client.Client
    metrics: metrics.Metrics
    clock: Callable[[], float]
    stopwatch: Callable[[], float]
    urgency: later.Urgency
