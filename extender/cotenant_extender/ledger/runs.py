"""How long pods ran that have finished, by what makes them alike; bounded in memory.

Authors choose what their pods run, so nothing here may let one namespace speak for another, nor go on being wrong:

- kinds are of one namespace, and a namespace has `KINDS_OF_NAMESPACE` at most: it displaces nobody else's;
- in the estimate for pods of no known kind, every namespace has one vote;
- a run below `SHORTEST_SECONDS` counts as that long: a probe that ends at once says little of others;
- who was let in ahead of others because it was to end soon, and runs on (see `Claim`), costs its namespace everything
  that is known of its pods, and nothing is learned of them for `DISTRUST_SECONDS`. Deadlines are kubelet's word, and
  are believed all the same; but not those of a namespace of which a pod ran on past its own.
"""

import statistics
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant_api.names import Namespace, PodUID
from cotenant_extender import records, tenures

KINDS = 1024
"""Kinds of which run times are kept; those that were seen longest ago are forgotten."""
KINDS_OF_NAMESPACE = 64
"""Kinds of one namespace of which run times are kept."""
KEPT = 32
"""The latest run times of a kind, and of a namespace, that count."""
FEWEST = 3
"""Below so many, nothing is known of a kind, or of a namespace."""
SHORTEST_SECONDS = 60.0
UNKNOWN_SECONDS = 600.0
"""A pod of which nothing is known is expected to run this long, until `FEWEST` pods of a namespace have finished."""
DISTRUST_SECONDS = 24 * 3600.0
NO_KIND = -1


class Known(NamedTuple):
    """What is known of the run times of one kind, in seconds: their median and their maximum."""

    typical: float
    longest: float


class Claim(NamedTuple):
    """What was believed of a pod that was let in ahead of others: that it runs no longer than so many seconds.

    Attributes:
        broken: when it has run for so many seconds, it was wrong to believe that.
        deadline: whether its own deadline said so; else pods like it did.
    """

    namespace: Namespace
    seconds: float
    broken: float
    deadline: bool = False


class Runs:
    """Run times by kind. A kind has a number, so that many tenants are looked up at once.

    Attributes:
        epoch: grows when numbers were given to other kinds.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._numbers: OrderedDict[tenures.Likeness, int] = OrderedDict()
        self._counts: Counter[Namespace] = Counter()
        self._free = list(range(KINDS - 1, -1, -1))
        self._retired: list[int] = []
        self._seconds: dict[int, deque[float]] = {}
        self._spaces: OrderedDict[Namespace, deque[float]] = OrderedDict()
        self._votes: dict[Namespace, float] = {}
        self._claims: dict[PodUID, Claim] = {}
        self._distrusted: dict[Namespace, float] = {}
        self._late: dict[Namespace, float] = {}
        self._table: NDArray[np.float64] = np.full((KINDS + 1, 2), np.nan)

    def learn(self, record: records.Pod, before: records.Pod | None) -> None:
        """Take note of a pod that has succeeded since it was seen before.

        Who failed or was evicted says nothing of how long others run.
        """
        started, ended, likeness = record.started, record.tenure.ended, record.likeness
        if record.phase != "Succeeded" or (before is not None and before.finished):
            return
        if started is None or ended is None or ended < started:
            return
        if ended < self._distrusted.get(record.namespace, 0.0):
            return
        seconds = max(ended - started, SHORTEST_SECONDS)
        self._vote(record.namespace, seconds)
        if likeness is None:
            return
        number = self._numbered(likeness)
        times = self._seconds.setdefault(number, deque(maxlen=KEPT))
        times.append(seconds)
        if len(times) >= FEWEST:
            self._table[number] = float(np.median(times)), max(times)

    def number(self, likeness: tenures.Likeness | None) -> int:
        """Return the number of a kind; `NO_KIND` where it has none. Valid during an epoch.

        Half of the numbers are left to kinds that are learned of. So whatever runs, an epoch lasts until as many kinds
        have been learned of.
        """
        if likeness is None:
            return NO_KIND
        scarce = len(self._free) <= KINDS // 2 or self._counts[likeness.namespace] >= KINDS_OF_NAMESPACE
        if likeness not in self._numbers and scarce:
            return NO_KIND
        return self._numbered(likeness)

    def of(self, likeness: tenures.Likeness | None) -> Known | None:
        """Return what is known of a kind; None: nothing."""
        number = NO_KIND if likeness is None else self._numbers.get(likeness, NO_KIND)
        typical, longest = self._table[number]
        return None if np.isnan(typical) else Known(float(typical), float(longest))

    def tables(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`Known.typical` and `Known.longest` of many kinds, any shape; NaN where nothing is known."""
        found = self._table[numbers]
        return found[..., 0], found[..., 1]

    @property
    def of_any(self) -> float:
        """The median of the namespaces' medians of their latest run times."""
        return statistics.median(self._votes.values()) if self._votes else UNKNOWN_SECONDS

    def believe(self, uid: PodUID, claim: Claim) -> None:
        """Note that a pod is let in ahead of others because of when it is to end."""
        self._claims[uid] = claim

    def review(self, pods: Mapping[PodUID, records.Pod], *, now: float) -> None:
        """Look whether those who were believed keep their word: to be called again and again while they run."""
        for uid, claim in list(self._claims.items()):
            record = pods.get(uid)
            if record is None or record.finished:
                del self._claims[uid]
            elif record.started is not None and now - record.started > claim.broken:
                del self._claims[uid]
                self._distrust(claim.namespace, until=now + DISTRUST_SECONDS)
                if claim.deadline:
                    self._late[claim.namespace] = now + DISTRUST_SECONDS
        for distrusted in (self._distrusted, self._late):
            for namespace in [name for name, until in distrusted.items() if until <= now]:
                del distrusted[namespace]

    def keeps_deadlines(self, namespace: Namespace) -> bool:
        """Return whether none of a namespace's pods ran on past its deadline lately."""
        return namespace not in self._late

    def _distrust(self, namespace: Namespace, *, until: float) -> None:
        """Forget what is known of a namespace's pods. Their kinds keep their numbers."""
        self._distrusted[namespace] = until
        self._spaces.pop(namespace, None)
        self._votes.pop(namespace, None)
        for likeness in self._of_namespace(namespace):
            self._clear(self._numbers[likeness])

    def _vote(self, namespace: Namespace, seconds: float) -> None:
        times = self._spaces.setdefault(namespace, deque(maxlen=KEPT))
        self._spaces.move_to_end(namespace)
        times.append(seconds)
        if len(times) >= FEWEST:
            self._votes[namespace] = float(np.median(times))
        if len(self._spaces) > KINDS:
            self._votes.pop(self._spaces.popitem(last=False)[0], None)

    def _numbered(self, likeness: tenures.Likeness) -> int:
        """Return the number of a kind, whatever has to be forgotten for it."""
        found = self._numbers.get(likeness)
        if found is None:
            if self._counts[likeness.namespace] >= KINDS_OF_NAMESPACE:
                self._retire(self._of_namespace(likeness.namespace)[0])
            if not self._free:
                self._forget()
            found = self._numbers[likeness] = self._free.pop()
            self._counts[likeness.namespace] += 1
        self._numbers.move_to_end(likeness)
        return found

    def _of_namespace(self, namespace: Namespace) -> list[tenures.Likeness]:
        """Return the kinds of a namespace that have numbers; the one that was seen longest ago first."""
        return [likeness for likeness in self._numbers if likeness.namespace == namespace]

    def _retire(self, likeness: tenures.Likeness) -> None:
        """Forget a kind. Its number goes to no other before the next epoch: tenants may still be known by it."""
        number = self._numbers.pop(likeness)
        self._retired.append(number)
        self._clear(number)
        self._counts[likeness.namespace] -= 1
        if not self._counts[likeness.namespace]:
            del self._counts[likeness.namespace]

    def _clear(self, number: int) -> None:
        self._seconds.pop(number, None)
        self._table[number] = np.nan

    def _forget(self) -> None:
        """Make room: by the numbers that are retired, else by those of the older half of the kinds."""
        self.epoch += 1
        if not self._retired:
            for likeness in list(self._numbers)[: KINDS // 2]:
                self._retire(likeness)
        self._free, self._retired = self._retired, []
