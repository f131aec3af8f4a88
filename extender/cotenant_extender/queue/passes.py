"""One pass over the queue: what it has decided so far, and when it is to end. What it decides is `planning`'s."""

from dataclasses import dataclass

from cotenant_extender import records, steps
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import policies
from cotenant_extender.queue import earmarking, order, preempting

LIFTS_PER_PASS = 128
"""Filter and bind are answered between passes."""
CELLS_PER_PASS = 2_000_000
"""GPUs that are looked at in one pass, as often as they are, at most; see `leader` for how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a pass decided.

    Attributes:
        lifts: gates to lift, with earmarks or for the autoscaler, and earmarks to write again.
        evictions: who is to be evicted for whom.
        unheard: pods without a gate of which kube-scheduler has yet to say what it finds: a report that stands says
            nothing any more.
        cut: more can be decided at once: the pass ended so that others get their turn meanwhile.
    """

    lifts: tuple[earmarking.Lift, ...]
    evictions: tuple[preempting.Eviction, ...]
    unheard: tuple[records.Pod, ...]
    cut: bool


class Pass:
    """State of one pass.

    Attributes:
        late: whether it has taken so long that others are to get their turn.
        catches_up: whether it leaves out what changed since earlier passes were cut: see `memory`.
        tried_all: whether all that may fit were tried in it.
        looked_at_before: places in the line of those that were expected to start nowhere, and may be by now.
    """

    def __init__(
        self, source: ledger.Ledger, policy: policies.InForce, *, now: float, cells: int, late: steps.Late
    ) -> None:
        self.source, self.policy, self.now, self.most_cells, self.late = source, policy, now, cells, late
        self.lifts: list[earmarking.Lift] = []
        self.evictions: list[preempting.Eviction] = []
        self.unheard: list[records.Pod] = []
        self.lifted: set[order.Name] = set()
        self.unsuited: set[int] = set()
        self.looked_at_before: list[int] = []
        self.cells, self.hurry = 0, False
        self.cut = self.reserved = self.more_guests = self.catches_up = self.tried_all = False

    @property
    def full(self) -> bool:
        """Whether others are to get their turn."""
        return len(self.lifts) >= LIFTS_PER_PASS or self.cells >= self.most_cells or self.may_end(1.0)

    def may_end(self, part: float) -> bool:
        """Return whether this part of the time has passed.

        Unless nobody was tried in this pass or, by `hurry`, the last.
        """
        return (self.cells > 0 or not self.hurry) and self.late(part)
