"""What `make bench-operator` and `make bench-operator-rest` have measured, and its figures beside their bars. Pure."""

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, Final

from cotenant_e2e import components, installation
from cotenant_e2e.benchmark.dljobs.crowd import Crowd, Span
from cotenant_e2e.benchmark.dljobs.finished import Finished

CORES: Final = os.cpu_count() or 1
SECONDS_BAR: Final = 60
MEMORY_BAR_MIB: Final = 300
IDLE_CPU_BAR_PERCENT: Final = 1.0
IDLE_REQUESTS_BAR: Final = 10
"""A minute. What it may be for is in `tables.PURPOSES`."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure. `bar`: what it must stay below; None: there is none."""

    what: str
    value: float
    unit: str
    bar: float | None = None

    @property
    def holds(self) -> bool:
        """Whether it is on the right side of its bar."""
        return self.bar is None or self.value <= self.bar


@dataclass(frozen=True, kw_only=True)
class AtOnce:
    """Many DLJobs at once, on so many nodes."""

    nodes: int
    crowd: Crowd

    def figures(self) -> list[Figure]:
        """In the order of a DLJob's life."""
        crowd = self.crowd
        return [
            Figure(
                what=f"{crowd.jobs:,} DLJobs, all gated",
                value=crowd.gated.seconds,
                unit="s",
                bar=SECONDS_BAR,
            ),
            Figure(what="from the last pod's end, all settled", value=crowd.settled.seconds, unit="s", bar=SECONDS_BAR),
            Figure(what="the operator's memory, at most", value=crowd.peak_mib, unit="MiB", bar=MEMORY_BAR_MIB),
            Figure(
                what="its requests for a DLJob, on average",
                value=sum(crowd.requests.values()) / crowd.jobs,
                unit="",
            ),
            Figure(what="its requests for a DLJob, the most", value=crowd.most_for_one, unit=""),
        ]

    def spans(self) -> list[tuple[str, Span]]:
        """Who worked when."""
        crowd = self.crowd
        return [
            ("until all are gated", crowd.gated),
            (f"all run, {crowd.running.seconds:.0f} s", crowd.running),
            ("until all are settled", crowd.settled),
        ]

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return _document(self.figures()) | dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class AtRest:
    """Many DLJobs that are over, on so many nodes; `lately` of them have ended just before."""

    nodes: int
    lately: int
    finished: Finished

    def figures(self) -> list[Figure]:
        """Memory, then what is spent in vain."""
        finished = self.finished
        cpu_percent = 100 * finished.cpu_seconds / finished.idle_seconds
        a_minute = sum(finished.requests.values()) / (finished.idle_seconds / 60)
        return [
            Figure(what="the operator's memory, at most", value=finished.peak_mib, unit="MiB", bar=MEMORY_BAR_MIB),
            Figure(what="at rest", value=finished.rss_mib, unit="MiB"),
            Figure(what="its CPU at rest, of one core", value=cpu_percent, unit="%", bar=IDLE_CPU_BAR_PERCENT),
            Figure(what="its requests at rest, a minute", value=a_minute, unit="", bar=IDLE_REQUESTS_BAR),
            Figure(what="from its start to its first action", value=finished.start_seconds, unit="s"),
        ]

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return _document(self.figures()) | dataclasses.asdict(self)


def _document(figures: list[Figure]) -> dict[str, Any]:
    shown = [dataclasses.asdict(figure) | {"holds": figure.holds} for figure in figures]
    return {"v": 1, "cores": CORES, "figures": shown}


PROCESSES: Final = (
    installation.OPERATOR,
    components.API_SERVER,
    components.CONTROLLER_MANAGER,
    installation.EXTENDER,
    components.ETCD,
    "benchmark",
)
