"""How long the agent took for kubelet's calls, by its own metrics. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

ALLOCATE: Final = "Allocate"
PRE_START: Final = "PreStartContainer"
METHODS: Final = (ALLOCATE, PRE_START)
OK: Final = "OK"
_LINE: Final = re.compile(
    r"^cotenant_device_plugin_rpc_duration_seconds_(bucket|sum|count)\{(.*)\} (\S+)$", re.MULTILINE
)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

Key = tuple[str, str]
"""Method, and the name of its gRPC status."""


@dataclass
class Calls:
    """Of one method with one result. `buckets`: calls that took at most so many seconds, by that bound."""

    count: int = 0
    seconds: float = 0.0
    buckets: dict[float, int] = field(default_factory=dict)

    def since(self, before: "Calls") -> "Calls":
        """Return what came after an earlier reading."""
        buckets = {bound: count - before.buckets.get(bound, 0) for bound, count in self.buckets.items()}
        return Calls(self.count - before.count, self.seconds - before.seconds, buckets)

    def quantile(self, share: float) -> float:
        """Seconds, between the bounds of the bucket that has it; the last finite bound where it is beyond that."""
        rank, below, least = share * self.count, 0, 0.0
        for bound, count in sorted(self.buckets.items()):
            if count >= rank and count > below and bound != float("inf"):
                return least + (bound - least) * (rank - below) / (count - below)
            below, least = count, bound if bound != float("inf") else least
        return least


def read(text: str) -> dict[Key, Calls]:
    """All calls since the agent's start. `text`: its metrics."""
    found: dict[Key, Calls] = {}
    for kind, words, value in _LINE.findall(text):
        labels = dict(_LABEL.findall(words))
        calls = found.setdefault((labels["method"], labels["result"]), Calls())
        match kind:
            case "bucket":
                calls.buckets[float(labels["le"])] = int(float(value))
            case "sum":
                calls.seconds = float(value)
            case _:
                calls.count = int(float(value))
    return found


def between(before: Mapping[Key, Calls], after: Mapping[Key, Calls]) -> dict[Key, Calls]:
    """Return what came between two readings; nothing that did not."""
    found = {key: calls.since(before.get(key, Calls())) for key, calls in after.items()}
    return {key: calls for key, calls in found.items() if calls.count}


def total(all_calls: Iterable[Calls]) -> Calls:
    """All of them together."""
    found = Calls()
    for each in all_calls:
        bounds = found.buckets.keys() | each.buckets.keys()
        buckets = {bound: found.buckets.get(bound, 0) + each.buckets.get(bound, 0) for bound in bounds}
        found = Calls(found.count + each.count, found.seconds + each.seconds, buckets)
    return found


def refused(calls: Mapping[Key, Calls], method: str) -> int:
    """Return how many calls kubelet had to make again."""
    return sum(each.count for (name, result), each in calls.items() if name == method and result != OK)
