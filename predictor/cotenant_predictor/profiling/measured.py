"""From what tenants report to the rows of a result. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import arrivals, statistics
from .plan import Run, Tenant
from .seats import TenantError

NOTHING: Mapping[str, Any] = {"spans": [], "hostToDeviceMilliseconds": [], "turnaroundMilliseconds": []}
SLOWEST = 12.0
"""How much slower requests may be answered beside others than alone before a run counts as hung."""
_DECIMALS = 6


@dataclasses.dataclass(frozen=True)
class Alone:
    """What is known of a job that has run alone."""

    step_seconds: float
    steps_per_second: float
    memory_mib: int


def alone_of(results: Iterable[Mapping[str, Any]]) -> dict[str, Alone]:
    """By job, from results of the stage `alone`: the mean over repeats that went well."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        if result["run"]["stage"] == "alone" and result["outcome"] == "Ok":
            row = result["tenants"][0]
            if row["stepsPerSecond"]:
                found.setdefault(result["run"]["tenants"][0]["job"], []).append(row)
    return {name: _mean_alone(rows) for name, rows in found.items()}


def tenant(
    planned: Tenant, report: Mapping[str, Any], *, window: tuple[float, float], failure: TenantError | None
) -> dict[str, Any]:
    """One tenant's row: how it ended, and what it did within the window (begin, end)."""
    begin, end = window
    spans = report["spans"]
    steps = statistics.steps_within(spans, begin, end)
    turnarounds = report["turnaroundMilliseconds"]
    copies = statistics.distribution(report["hostToDeviceMilliseconds"])
    ok = failure is None
    return {
        "job": planned.job,
        "outcome": "Ok" if failure is None else failure.outcome,
        "error": None if failure is None else failure.reason,
        "overlapped": ok and (planned.load != "Steps" or statistics.covers(spans, begin, end)),
        "stepsPerSecond": round(steps / (end - begin), _DECIMALS) if ok and end > begin else None,
        "stepMilliseconds": _rounded(statistics.distribution(statistics.milliseconds_within(spans, begin, end))),
        "hostToDeviceMilliseconds": round(copies["mean"], _DECIMALS) if copies else None,
        "turnaroundMilliseconds": _rounded(statistics.distribution(turnarounds)),
        "turnarounds": [round(value, 3) for value in turnarounds],
    }


def worst(outcomes: Iterable[str]) -> str:
    """Return the outcome of a run, of its tenants' outcomes."""
    found = set(outcomes)
    return next((name for name in ("Timeout", "Crashed", "OutOfMemory") if name in found), "Ok")


def last_answer(reports: Iterable[Mapping[str, Any]]) -> float:
    """Return the end of the last request that was answered; 0 where there was none."""
    return max((r["spans"][-1][1] for r in reports if r["turnaroundMilliseconds"]), default=0.0)


def memory_limit_mib(planned: Tenant, alone: Mapping[str, Alone]) -> int | None:
    """Return a limit in percent of the peak alone, as MiB. Raises KeyError: the job has no result alone."""
    if planned.memory_limit_percent is None:
        return None
    return math.ceil(alone[planned.job].memory_mib * planned.memory_limit_percent / 100)


def requests_per_second(planned: Tenant, alone: Mapping[str, Alone]) -> float:
    """Return the rate at which Poisson requests come. Raises KeyError: the job has no result alone."""
    return arrivals.POISSON_LOAD * alone[planned.job].steps_per_second


def request_seconds(run: Run, alone: Mapping[str, Alone], requests: int) -> float:
    """Return how long the run's requests take if nothing slows them; 0 without. Unknown jobs count as 20 ms a step."""
    found = 0.0
    for planned in run.tenants:
        if planned.load != "Steps":
            step = alone[planned.job].step_seconds if planned.job in alone else 0.02
            found = max(found, requests * step / (arrivals.POISSON_LOAD if planned.load == "Poisson" else 1.0))
    return found


def _mean_alone(rows: Sequence[Mapping[str, Any]]) -> Alone:
    rate = math.fsum(row["stepsPerSecond"] for row in rows) / len(rows)
    return Alone(1.0 / rate, rate, max(row["memoryPeakMiB"] or 0 for row in rows))


def _rounded(values: Mapping[str, float] | None) -> dict[str, float] | None:
    return None if values is None else {name: round(value, _DECIMALS) for name, value in values.items()}
