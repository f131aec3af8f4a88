"""What the demo ends with: figures of what was seen. Pure, but for the text that it returns."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant_api.names import GPUUID
from cotenant_e2e.demo.occupancy import Occupancy, Timeline, Use
from cotenant_e2e.demo.rows import Row


@dataclass(frozen=True)
class GPUUse:
    """One GPU: how long it had tenants, and while it had, how many and their predicted utilization together."""

    name: str
    busy_percent: float
    utilization_percent: float
    tenants: float


@dataclass(frozen=True)
class Summary:
    """Figures of one run.

    Attributes:
        jobs_at_once, gpus_at_once: the most that ran together, and the most GPUs they were on.
        by_gpu: how each GPU was used.
        sharing: mean number of jobs on a GPU in use, over time.
        waits: seconds from a pod's creation to its binding.
        latencies: seconds from the lifting of a pod's gate to its binding.
        pods_per_second: bound pods in the busiest second.
        reasons: how many pods ever waited for each reason.
        unpredicted: jobs without a prediction, with the reason.
    """

    seconds: float
    gpus: int
    pods: int
    jobs_at_once: int
    gpus_at_once: int
    by_gpu: Sequence[GPUUse]
    sharing: float
    waits: Sequence[float]
    latencies: Sequence[float]
    pods_per_second: int
    reasons: Counter[str]
    unpredicted: Sequence[Row]
    unfinished: Sequence[Row]
    violations: Sequence[str]

    @property
    def succeeded(self) -> bool:
        """Whether every job was placed and finished and every promise was kept."""
        return not self.unfinished and not self.violations


def of_run(
    occupancy: Occupancy,
    rows: Sequence[Row],
    reasons: Counter[str],
    *,
    seconds: float,
    gpu_names: Mapping[GPUUID, str],
) -> Summary:
    """Return the figures of what was followed."""
    timelines = list(occupancy.timelines.values())
    placed = [timeline for timeline in timelines if timeline.bound is not None]
    return Summary(
        seconds=seconds,
        gpus=len(gpu_names),
        pods=len(placed),
        jobs_at_once=occupancy.peak_jobs,
        gpus_at_once=occupancy.peak_gpus,
        by_gpu=[
            _use(name, occupancy.use.get(uuid, Use()), seconds)
            for uuid, name in sorted(gpu_names.items(), key=lambda item: item[1])
        ],
        sharing=_sharing(occupancy),
        waits=sorted(_between(timeline, timeline.created) for timeline in placed),
        latencies=sorted(_between(t, t.lifted) for t in placed if t.lifted is not None),
        pods_per_second=_busiest([t.bound for t in placed if t.bound is not None]),
        reasons=reasons,
        unpredicted=[row for row in rows if row.unpredicted],
        unfinished=[row for row in rows if not row.done],
        violations=list(occupancy.violations),
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that `percent` of the sorted values do not exceed; 0 of none."""
    if not values:
        return 0
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _use(name: str, use: Use, seconds: float) -> GPUUse:
    busy = use.busy_seconds or 1
    return GPUUse(name, 100 * use.busy_seconds / seconds, use.utilization_seconds / busy, use.tenant_seconds / busy)


def _sharing(occupancy: Occupancy) -> float:
    busy = sum(use.busy_seconds for use in occupancy.use.values())
    return sum(use.tenant_seconds for use in occupancy.use.values()) / busy if busy else 0


def _between(timeline: Timeline, start: float) -> float:
    return (timeline.bound or start) - start


def _busiest(times: Sequence[float]) -> int:
    """Return the most events within any second."""
    ordered = sorted(times)
    most, first = 0, 0
    for last, time in enumerate(ordered):
        while time - ordered[first] > 1:
            first += 1
        most = max(most, last - first + 1)
    return most
