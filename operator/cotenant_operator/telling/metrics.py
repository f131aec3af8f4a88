"""What Prometheus is told of the operator, in a registry of its own.

It names nobody, so whoever may connect may read it.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cotenant_api import dljob
from cotenant_operator.state import carried
from cotenant_operator.state.kinds import Kind

CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST
_PREFIX: Final = "cotenant_operator"
_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)


class Result(enum.StrEnum):
    """What came of a look at a DLJob."""

    DONE = "done"
    AGAIN = "again"
    """It is looked at again: something changed meanwhile, or the API server did not answer."""
    REFUSED = "refused"
    """The API server refuses what is to be done."""
    FAULT = "fault"
    """A fault of the operator."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Who knows what stands now. `unobserved`, `not_started`, `lost`: seconds."""

    due: Callable[[], float]
    unobserved: Callable[[], float]
    not_started: Callable[[], float]
    lost: Callable[[], float]
    unread: Callable[[], float]
    phases: Callable[[], Mapping[dljob.Phase, int]]
    leading: Callable[[], bool]


class Metrics:
    """Every metric; names follow Prometheus' rules."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._phases: Callable[[], Mapping[dljob.Phase, int]] = dict
        self.reconciles = self._counter("reconciles_total", "Looks at a DLJob, by result.", "result")
        self.reconcile_seconds = Histogram(
            f"{_PREFIX}_reconcile_seconds",
            "Time of a look at a DLJob, requests and the reading of its graph included.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.restarts = self._counter("restarts_total", "Attempts that follow another, by why that ended.", "cause")
        self.finished = self._counter("finished_total", "DLJobs that ended, by the reason of the condition.", "reason")
        self.contests = self._counter(
            "contests_total",
            "Times that writes began to wait because somebody else undoes them, by kind of object.",
            "kind",
        )
        self.queue_due = self._gauge("queue_due", "DLJobs that are due and wait for a worker.")
        self.unobserved_seconds = self._gauge(
            "unobserved_seconds", "How long the DLJob has waited whose spec the operator has left unobserved longest."
        )
        self.not_started_seconds = self._gauge(
            "not_started_seconds", "How long the DLJob has had its GPUs whose container fails to start for longest."
        )
        self.lost_seconds = self._gauge(
            "lost_seconds", "How long the DLJob has been on a node that does not answer for longest."
        )
        self.unread_objects = self._gauge(
            "unread_objects", "Objects of DLJobs that cannot be read or kept, so that their DLJobs are held."
        )
        self.dljobs = Gauge(f"{_PREFIX}_dljobs", "DLJobs by phase.", ["phase"], registry=self.registry)
        self.leading = self._gauge("leading", "1 where this operator acts; one that waits counts no DLJobs.")
        for result in Result:
            self.reconciles.labels(result.value)
        for cause in carried.Cause:
            self.restarts.labels(cause.value)
        for kind in (Kind.JOB, Kind.DEPLOYMENT):
            self.contests.labels(kind.value)

    def ask(self, sources: Sources) -> None:
        """Have these asked for whenever the metrics are read."""
        self._phases = sources.phases
        self.queue_due.set_function(sources.due)
        self.unobserved_seconds.set_function(sources.unobserved)
        self.not_started_seconds.set_function(sources.not_started)
        self.lost_seconds.set_function(sources.lost)
        self.unread_objects.set_function(sources.unread)
        self.leading.set_function(sources.leading)

    def text(self) -> bytes:
        """Return the exposition."""
        counted = self._phases()
        for phase in dljob.Phase:
            self.dljobs.labels(phase.value).set(counted.get(phase, 0))
        return prometheus_client.generate_latest(self.registry)

    def _counter(self, name: str, words: str, label: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", words, [label], registry=self.registry)

    def _gauge(self, name: str, words: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", words, registry=self.registry)
