"""What `make bench-node` has measured, and its figures. Pure."""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant_e2e.benchmark.node import calls
from cotenant_e2e.benchmark.node.crowd import Crowd, Usage
from cotenant_e2e.benchmark.node.starts import Pair

CORES: Final = os.cpu_count() or 1
RSS_BAR_MIB: Final = 80
IDLE_BAR_PERCENT: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """With a share to without. `median`, `least`, `most`: of the pairs' ratios; the seconds: medians of each."""

    median: float
    least: float
    most: float
    shared_seconds: float
    plain_seconds: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """Calls of one method. `exact`: each was measured by itself; else they are between bounds of a histogram."""

    method: str
    pods: int
    count: int
    median_milliseconds: float
    p99_milliseconds: float
    refused: int
    exact: bool


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Everything. `empty`: the agent without any tenant, at the end."""

    gpus: int
    pairs: Sequence[Pair]
    crowds: Sequence[Crowd]
    empty: Usage

    def one(self) -> Ratio:
        """Of pods that start one at a time."""
        return _ratio([(pair.shared.seconds, pair.plain.seconds) for pair in self.pairs])

    def many(self) -> Ratio:
        """Of pods that are created at once."""
        return _ratio([(crowd.shared_seconds, crowd.plain_seconds) for crowd in self.crowds])

    def rows(self) -> list[Row]:
        """Of each method, one pod at a time and then all at once."""
        return [self._singly(name) for name in calls.METHODS] + [self._at_once(name) for name in calls.METHODS]

    def _singly(self, name: str) -> Row:
        starts = [pair.shared for pair in self.pairs]
        seconds = sorted(start.call_seconds[name] for start in starts if name in start.call_seconds)
        return Row(
            method=name,
            pods=1,
            count=len(seconds),
            median_milliseconds=1e3 * statistics.median(seconds),
            p99_milliseconds=1e3 * seconds[round(0.99 * (len(seconds) - 1))],
            refused=sum(start.refused.get(name, 0) for start in starts),
            exact=True,
        )

    def _at_once(self, name: str) -> Row:
        granted = calls.total(crowd.calls.get((name, calls.OK), calls.Calls()) for crowd in self.crowds)
        return Row(
            method=name,
            pods=self.crowds[0].pods,
            count=granted.count,
            median_milliseconds=1e3 * granted.quantile(0.5),
            p99_milliseconds=1e3 * granted.quantile(0.99),
            refused=sum(calls.refused(crowd.calls, name) for crowd in self.crowds),
            exact=False,
        )

    def usages(self) -> list[tuple[str, Usage]]:
        """Return the agent in each state; of several rounds the last."""
        last = self.crowds[-1]
        return [
            (f"while {last.pods} pods come", last.busy),
            (f"with {last.pods} tenants, nothing changes", last.idle),
            ("without a tenant, nothing changes", self.empty),
        ]

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "v": 1,
            "cores": CORES,
            "standInGPUs": self.gpus,
            "ratios": {"one": vars(self.one()), "many": vars(self.many())},
            "calls": [vars(row) for row in self.rows()],
            "agent": {name: vars(usage) | {"cpu_percent": usage.cpu_percent} for name, usage in self.usages()},
        }


def _ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    ratios = [shared / plain for shared, plain in pairs]
    return Ratio(
        median=statistics.median(ratios),
        least=min(ratios),
        most=max(ratios),
        shared_seconds=statistics.median(shared for shared, _ in pairs),
        plain_seconds=statistics.median(plain for _, plain in pairs),
        count=len(pairs),
    )
