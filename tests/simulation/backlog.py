"""kube-scheduler's queue: active, backing off, unschedulable. Pure: the time is a parameter.

A pod that found no node is woken by an event, after its backoff; by five minutes at the latest. An event that comes
while a pod is being scheduled counts for it, too.
"""

import enum
from dataclasses import dataclass

FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 10.0
FLUSH_SECONDS = 300.0


class Where(enum.Enum):
    """Which part of the queue."""

    READY = "active, or backing off until `due`"
    UNSCHEDULABLE = "until an event"
    FLYING = "in a cycle, or being bound"


@dataclass
class Queued:
    """A pod in the queue.

    Attributes:
        tried: when its last cycle ended.
        moves: the count of events when its cycle began.
    """

    uid: str
    priority: int
    added: float
    where: Where = Where.READY
    due: float = 0.0
    attempts: int = 0
    tried: float = 0.0
    moves: int = 0


class Backlog:
    """The queue."""

    def __init__(self) -> None:
        self.entries: dict[str, Queued] = {}
        self._moves = 0

    def add(self, uid: str, *, priority: int, now: float) -> None:
        """A pod that may be scheduled."""
        self.entries.setdefault(uid, Queued(uid, priority, now))

    def drop(self, uid: str) -> None:
        """It is bound or gone."""
        self.entries.pop(uid, None)

    def pop(self, *, now: float) -> Queued | None:
        """The next pod to schedule."""
        ready = [entry for entry in self.entries.values() if entry.where is Where.READY and entry.due <= now]
        if not ready:
            return None
        found = min(ready, key=lambda entry: (-entry.priority, entry.added, entry.uid))
        found.where, found.moves = Where.FLYING, self._moves
        found.attempts += 1
        return found

    def next_due(self, *, now: float) -> float:
        """When to look again at the latest."""
        dues = [entry.due for entry in self.entries.values() if entry.where is Where.READY]
        return min([*dues, now + 30.0])

    def unschedulable(self, uid: str, *, now: float) -> None:
        """No node was found."""
        entry = self.entries.get(uid)
        if entry is not None:
            entry.tried, entry.where = now, Where.UNSCHEDULABLE
            if entry.moves != self._moves:
                self._wake(entry)

    def failed(self, uid: str, *, now: float) -> None:
        """Something went wrong: it is tried again after its backoff."""
        entry = self.entries.get(uid)
        if entry is not None:
            entry.tried = now
            self._wake(entry)

    def moved(self) -> None:
        """Something happened that may make room."""
        self._moves += 1
        for entry in self.entries.values():
            if entry.where is Where.UNSCHEDULABLE:
                self._wake(entry)

    def updated(self, uid: str) -> None:
        """The pod itself changed, not only its status."""
        entry = self.entries.get(uid)
        if entry is None:
            return
        if entry.where is Where.UNSCHEDULABLE:
            self._wake(entry)
        elif entry.where is Where.FLYING:
            entry.moves = -1

    def flush(self, *, now: float) -> None:
        """What waited for five minutes is tried again."""
        for entry in self.entries.values():
            if entry.where is Where.UNSCHEDULABLE and now - entry.tried > FLUSH_SECONDS:
                self._wake(entry)

    def _wake(self, entry: Queued) -> None:
        backoff = min(FIRST_BACKOFF_SECONDS * 2 ** (entry.attempts - 1), MAX_BACKOFF_SECONDS)
        entry.where, entry.due = Where.READY, entry.tried + backoff
