"""Whether pods fit what the ResourceQuotas of a namespace leave. Pure; rules as in `state.demand`.

A quota charges a pod for the resources that both name, where all of the quota's scopes match the pod. A limit whose
use has not been counted yet is left to the API server.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from cotenant_operator.state.demand import Demand
from cotenant_operator.state.quotas import Quota, Scope

_BINARY: Final = (("Gi", Decimal(2**30)), ("Mi", Decimal(2**20)), ("Ki", Decimal(2**10)))
_BYTES: Final = ("memory", "storage", "hugepages-")


class Limit(NamedTuple):
    """One limit of one quota."""

    quota: str
    resource: str

    def __str__(self) -> str:
        return f"{self.quota}/{self.resource}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lack:
    """Some pods do not fit, and by which limit.

    Attributes:
        asked: by all of them.
        left: of the limit, by what is used.
        kept: of what is left, for gangs that go first.
    """

    limit: Limit
    pods: int
    asked: Decimal
    hard: Decimal
    left: Decimal
    kept: Decimal

    @property
    def for_ever(self) -> bool:
        """Whether they would not fit an unused quota either."""
        return self.asked > self.hard

    def __str__(self) -> str:
        resource = self.limit.resource
        asked, hard, left = (shown(resource, amount) for amount in (self.asked, self.hard, self.left))
        who = f"{self.pods} pods ask" if self.pods > 1 else "a pod asks"
        asking = f"{resource}: {who} for {asked}"
        if self.for_ever:
            remedy = "raise it, or ask for less"
            return f"{asking}, ResourceQuota {self.limit.quota} allows {hard} in all: {remedy}"
        text = f"{asking}, {left} of {hard} are left in ResourceQuota {self.limit.quota}"
        return f"{text}, {shown(resource, self.kept)} of these for gangs that go first" if self.kept > 0 else text


class Room:
    """What the quotas of a namespace leave, and what of it is promised to others."""

    def __init__(self, quotas: Sequence[Quota]) -> None:
        self._quotas = tuple(quotas)
        self._kept: dict[Limit, Decimal] = {}

    def promise(self, demand: Demand, pods: int) -> None:
        """Keep room for so many pods, whether there is or not."""
        for limit, _ in limits(self._quotas, demand):
            amount = pods * demand.amounts[limit.resource]
            self._kept[limit] = self._kept.get(limit, Decimal(0)) + amount

    def lack(self, demand: Demand, pods: int) -> Lack | None:
        """Return the limit that leaves too little for so many pods, the worst in proportion; None: they fit."""
        found = (self._of(limit, quota, demand, pods) for limit, quota in limits(self._quotas, demand))
        lacks = [lack for lack in found if lack is not None]
        return max(lacks, key=lambda lack: (lack.for_ever, lack.asked / (lack.hard or 1)), default=None)

    def _of(self, limit: Limit, quota: Quota, demand: Demand, pods: int) -> Lack | None:
        left, asked = quota.left(limit.resource), pods * demand.amounts[limit.resource]
        kept = self._kept.get(limit, Decimal(0))
        if left is None or asked <= left - kept:
            return None
        left = max(left, Decimal(0))
        hard, kept = quota.hard[limit.resource], min(kept, left)
        return Lack(limit=limit, pods=pods, asked=asked, hard=hard, left=left, kept=kept)


def concern(quotas: Iterable[Quota], demand: Demand) -> bool:
    """Return whether some quota limits such pods."""
    return next(limits(quotas, demand), None) is not None


def limits(quotas: Iterable[Quota], demand: Demand) -> Iterator[tuple[Limit, Quota]]:
    """Yield the limits that charge such pods."""
    for quota in quotas:
        if all(matches(scope, demand) for scope in quota.scopes):
            for resource in quota.hard:
                if resource in demand.amounts:
                    yield Limit(quota.key.name, resource), quota


def matches(scope: Scope, demand: Demand) -> bool:
    """Return whether a scope holds for such pods; one that is not about pods never does."""
    facts = {
        "Terminating": demand.terminating,
        "NotTerminating": not demand.terminating,
        "BestEffort": demand.best_effort,
        "NotBestEffort": not demand.best_effort,
        "CrossNamespacePodAffinity": demand.crosses_namespaces,
    }
    if scope.name == "PriorityClass":
        return _matches_class(scope, demand.priority_class)
    return facts.get(scope.name, False)


def _matches_class(scope: Scope, name: str) -> bool:
    match scope.operator:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in scope.values
        case "NotIn":
            # As with labels: what is not there is in no list.
            return name not in scope.values
    return False


def shown(resource: str, amount: Decimal) -> str:
    """Return a quantity as people write it: bytes in the largest unit that fits evenly, anything else as it is."""
    if any(word in resource for word in _BYTES):
        for suffix, size in _BINARY:
            if amount >= size and amount % size == 0:
                return f"{amount / size:f}".rstrip(".") + suffix
    return f"{amount.normalize():f}"
