"""Jobs that would evict, and of which kube-scheduler has yet to say which nodes it accepts. Pure.

Only kube-scheduler knows all that may keep a pod from a node: others' anti-affinity, volumes, devices. So it tries a
job before anybody leaves for it. One with gates is lifted for that; one without is tried anyway, and its report is
taken back, as it says nothing any more.
"""

from collections.abc import Collection
from typing import NamedTuple

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import earmarking, line, order, showing

LIMIT = 256
"""Pods that kube-scheduler is asked about at a time; those of one gang are asked about together."""


class Question(NamedTuple):
    """What is to be done so that kube-scheduler answers.

    Attributes:
        lifts: gates to lift.
        unheard: pods without a gate whose report is to be taken back.
    """

    lifts: list[earmarking.Lift]
    unheard: list[records.Pod]


class Questions:
    """What was asked, and who waits for an answer."""

    def __init__(self) -> None:
        self._waiting: set[order.Name] = set()
        self._asked: dict[PodUID, float] = {}

    def __contains__(self, name: order.Name) -> bool:
        return name in self._waiting

    def put(
        self, source: ledger.Ledger, entry: order.Entry, nodes: Collection[NodeName], *, now: float
    ) -> Question | None:
        """Let kube-scheduler try a job before anybody is evicted on these nodes; None: it has told of them all."""
        unknown = [member for member in entry.members if not source.hosts.tries.tells_of(member.uid, nodes)]
        if not unknown:
            return None
        self._waiting.add(entry.name)
        pending = source.index.pending
        self._asked = {
            uid: time for uid, time in self._asked.items() if now - time < showing.LIFT_SECONDS and uid in pending
        }
        members = [member for member in unknown if member.uid not in self._asked]
        if self._asked and len(self._asked) + len(members) > LIMIT:
            return Question([], [])
        self._asked.update((member.uid, now) for member in members)
        return Question(
            [earmarking.Lift(record=member, earmark=None, asks=True) for member in members if member.gates],
            [member for member in members if not member.gates and member.unschedulable is not None],
        )

    def forget(self, name: order.Name) -> None:
        """Forget a job: it is looked at anew."""
        self._waiting.discard(name)

    def keep(self, entries: Collection[order.Entry]) -> None:
        """Forget all but these jobs."""
        if self._waiting:
            self._waiting.intersection_update(entry.name for entry in entries)

    def heard_of(self, jobs: line.Line, touched: Collection[PodUID]) -> list[order.Name]:
        """Return the jobs that wait for an answer, and of which kube-scheduler may have given one."""
        waiting = ((name, jobs.get(name)) for name in self._waiting)
        return [name for name, entry in waiting if entry and any(one.uid in touched for one in entry.members)]
