"""PodDisruptionBudgets that refused an eviction: whom they protect, and until when nobody of these is asked again.

A budget answers for all pods that it selects. So one refusal is enough: none of them is asked for `BACKOFF_SECONDS`,
doubling each time, and others are looked for. However many pods an author protects by a budget that allows no
disruption, they cost a job of higher priority one request in `BACKOFF_LIMIT_SECONDS`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cotenant_api import backoff
from cotenant_api.names import Namespace, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import constraints

BACKOFF_SECONDS = 10.0
BACKOFF_LIMIT_SECONDS = 300.0


Key = tuple[Namespace, str]
"""Namespace and name."""
_UNKNOWN: Final = -1, frozenset[Key]()


class Budget(NamedTuple):
    """A PodDisruptionBudget.

    Attributes:
        selects: what the labels of its pods match; None: it selects none.
    """

    namespace: Namespace
    name: str
    selects: tuple[constraints.Expression, ...] | None

    def covers(self, record: records.Pod) -> bool:
        """Return whether a pod is one of its own."""
        if self.selects is None or record.namespace != self.namespace:
            return False
        return all(expression.matches(record.labels) for expression in self.selects)


def read(raw: Mapping[str, Any]) -> Budget:
    """Return a PodDisruptionBudget as the API server gives it.

    One with more than `constraints.MAX_PARTS` expressions and values counts as one for all pods of its namespace: to
    judge each by them would keep everybody else waiting.
    """
    metadata, selector = raw["metadata"], (raw.get("spec") or {}).get("selector")
    selects = None if selector is None else constraints.labelled(selector)
    if selects is not None and constraints.size(selects) > constraints.MAX_PARTS:
        selects = ()
    return Budget(Namespace(metadata["namespace"]), metadata["name"], selects)


def allowed(raw: Mapping[str, Any]) -> float:
    """Return of how many of its ready pods a PodDisruptionBudget may allow the eviction now; inf: not known.

    Of one with too many expressions, see `read`, it is not known which pods are its own.
    """
    if constraints.size(constraints.labelled((raw.get("spec") or {}).get("selector") or {})) > constraints.MAX_PARTS:
        return math.inf
    return float((raw.get("status") or {}).get("disruptionsAllowed", 0))


@dataclass(frozen=True, slots=True)
class _Refusal:
    """How often a budget refused in a row, until when it is not asked, and the lowest priority that it protected."""

    budget: Budget
    count: int
    until: float
    priority: int


class Budgets:
    """The refusals that count."""

    def __init__(self) -> None:
        self._refusals: dict[Key, _Refusal] = {}
        self._keeping: tuple[int, frozenset[Key]] = _UNKNOWN

    def refused(self, budget: Budget, victim: records.Pod, *, now: float) -> None:
        """Note that a budget refused the eviction of a pod."""
        key = budget.namespace, budget.name
        before = self._refusals.get(key)
        count = 1 if before is None else before.count + 1
        priority = victim.priority if before is None else min(before.priority, victim.priority)
        self._refusals[key] = _Refusal(budget, count, now + delay(count), priority)
        self._keeping = _UNKNOWN

    def forget(self, *, now: float) -> None:
        """Forget budgets that have not been asked for long."""
        for key in [key for key, found in self._refusals.items() if found.until + BACKOFF_LIMIT_SECONDS < now]:
            del self._refusals[key]

    def covered(self, source: ledger.Ledger, *, now: float) -> Iterator[PodUID]:
        """Yield the pods that are not to be asked now, of those that hold GPUs."""
        standing = [found.budget for found in self._refusals.values() if found.until > now]
        if standing:
            yield from (record.uid for record in _held(source) if any(budget.covers(record) for budget in standing))

    def against(self, source: ledger.Ledger, priority: int) -> list[Key]:
        """Return the budgets that refused the eviction of pods below a priority when they were last asked.

        Those whose pods have all gone are left out.
        """
        found = [key for key, refusal in self._refusals.items() if refusal.priority < priority]
        if found and self._keeping[0] != source.version:
            self._keeping = source.version, self._covering(source)
        return sorted(self._keeping[1].intersection(found))

    def _covering(self, source: ledger.Ledger) -> frozenset[Key]:
        """Budgets of which pods hold GPUs."""
        held = list(_held(source))
        covering = ((key, refusal.budget.covers) for key, refusal in self._refusals.items())
        return frozenset(key for key, covers in covering if any(map(covers, held)))


def _held(source: ledger.Ledger) -> Iterator[records.Pod]:
    """Pods on GPUs."""
    known = (source.pods.get(uid) for uid in source.claims)
    return (record for record in known if record is not None and record.node is not None)


def delay(count: int) -> float:
    """Return for how many seconds nobody is asked after so many refusals."""
    return backoff.doubled(BACKOFF_SECONDS, count - 1, most=BACKOFF_LIMIT_SECONDS)
