"""Which DLJobs are to be looked at, and when. No I/O; the time is a parameter, in seconds of any monotonic clock.

A key is with one worker at a time; what happens meanwhile makes it due again. Failures of a key are retried
after a delay that doubles, or as soon as something happens to it.

Namespaces take turns among the keys that are due. While another namespace has work, a namespace holds a part of the
workers only: all workers share one event loop, so each step of one waits for a step of every other.
"""

import heapq
from collections import Counter, OrderedDict
from typing import Final

from cotenant_api import backoff
from cotenant_operator.state.views import Key

FIRST_BACKOFF_SECONDS: Final = 0.2
LONGEST_BACKOFF_SECONDS: Final = 60.0
PER_NAMESPACE: Final = 8
"""Workers that a namespace holds at most while another namespace has work."""
_SLACK: Final = 64
"""Entries of the heap that may be of no use, besides one for each key."""


class WorkQueue:
    """Keys and when each is due."""

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._ready: OrderedDict[str, OrderedDict[Key, None]] = OrderedDict()
        self._working: dict[Key, float | None] = {}
        self._held: Counter[str] = Counter()
        self._failures: dict[Key, int] = {}
        self._added = 0

    def __len__(self) -> int:
        return len(self._due) + len(self._working)

    @property
    def entries(self) -> int:
        """How much is kept in order to know what is due next."""
        return len(self._heap)

    def add(self, key: Key, *, at: float) -> None:
        """Have a key looked at, no later than `at`."""
        if key in self._working:
            due = self._working[key]
            self._working[key] = at if due is None else min(due, at)
            return
        due = self._due.get(key)
        if due is not None and due <= at:
            return
        self._due[key] = at
        self._added += 1
        heapq.heappush(self._heap, (at, self._added, key))
        if len(self._heap) > _SLACK + 2 * len(self._due):
            # What was due later than it came about would stay until its time, which may be in a year.
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def take(self, now: float) -> Key | None:
        """Return the key of the next namespace that has been due longest; it is being worked on until `done`.

        Returns:
            None: nothing is due, or what is due belongs to namespaces that hold their part of the workers.
        """
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == at:
                self._ready.setdefault(key.namespace, OrderedDict())[key] = None
        namespace = self._next()
        if namespace is None:
            return None
        keys = self._ready.pop(namespace)
        key, _ = keys.popitem(last=False)
        if keys:
            self._ready[namespace] = keys
        del self._due[key]
        self._working[key] = None
        self._hold(namespace, 1)
        return key

    def set_aside(self, namespace: str, count: int) -> None:
        """Note that so many workers of a namespace only wait, and hold up nobody; negative: they work again."""
        self._hold(namespace, -count)

    def done(self, key: Key) -> None:
        """Note that the work on a key went well, or that there is no such DLJob any more."""
        self._failures.pop(key, None)
        self._release(key)

    def failed(self, key: Key, *, now: float, delay_seconds: float = 0.0) -> float:
        """Return the work on a key failed: it is due again after a while. The delay, at least `delay_seconds`."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = max(backoff.doubled(FIRST_BACKOFF_SECONDS, count, most=LONGEST_BACKOFF_SECONDS), delay_seconds)
        self._release(key)
        self.add(key, at=now + delay)
        return delay

    def count_due(self, now: float) -> int:
        """Return how many keys are due and not being worked on."""
        return sum(at <= now for at in self._due.values())

    def failures(self, key: Key) -> int:
        """Return how often in a row the work on a key failed."""
        return self._failures.get(key, 0)

    def due_in(self, now: float) -> float | None:
        """Seconds until the next key is due; None: none waits, but for those that wait for a worker to be done."""
        if self._next() is not None:
            return 0.0
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return max(self._heap[0][0] - now, 0.0) if self._heap else None

    def _next(self) -> str | None:
        """Return the namespace whose turn it is; None: there is none that may hold one worker more."""
        if len(self._ready) == 1 and self._held.keys() <= self._ready.keys():
            return next(iter(self._ready))
        return next((namespace for namespace in self._ready if self._held[namespace] < PER_NAMESPACE), None)

    def _hold(self, namespace: str, count: int) -> None:
        self._held[namespace] += count
        if not self._held[namespace]:
            del self._held[namespace]

    def _release(self, key: Key) -> None:
        if key in self._working:
            self._hold(key.namespace, -1)
        again = self._working.pop(key, None)
        if again is not None:
            self.add(key, at=again)
