"""A cluster in virtual time: pods come at given times, run as long as they are given, and end. For tests of waiting."""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cotenant_api.names import NodeName, PodUID
from cotenant_extender.ledger import ledger
from extender import builders, queueing
from extender.builders import NOW

TICK_SECONDS = 5.0


@dataclass(frozen=True)
class Job:
    """A pod that will come.

    Attributes:
        arrives: seconds after the beginning.
        seconds: how long it runs; None: it never ends.
        fields: of its object, as `builders.pod` takes them.
    """

    name: str
    share: int
    arrives: float
    seconds: float | None
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Stream:
    """Lifted pods are bound and start at once.

    Attributes:
        waited: seconds, of pods that were placed.
        placed: the GPUs on which they were.
        idle: GPU-seconds that nobody had booked, of GPUs that were held.
    """

    source: ledger.Ledger
    waited: dict[str, float] = field(default_factory=dict)
    placed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    idle: float = 0.0
    now: float = NOW
    _jobs: dict[str, Job] = field(default_factory=dict)
    _agenda: list[tuple[float, int, str]] = field(default_factory=list)
    _numbers: Any = field(default_factory=itertools.count)

    def run(self, jobs: Sequence[Job], *, seconds: float, until: str | None = None) -> None:
        """So long, or until a pod is placed."""
        for job in jobs:
            self._jobs[job.name] = job
            self._push(NOW + job.arrives, job.name)
        self._push(NOW, "")
        while self._agenda and self._agenda[0][0] <= NOW + seconds and until not in self.placed:
            self._step()

    def _step(self) -> None:
        when, _, name = heapq.heappop(self._agenda)
        self._count_idle(when)
        self.now = when
        if not name:
            self._push(when + TICK_SECONDS, "")
            for node in list(self.source.nodes):
                self.source.lease(NodeName(node), when, now=when)
        elif name in self.placed:
            self._end(name)
        else:
            self._come(self._jobs[name])
        if not self._agenda or self._agenda[0][0] > when:
            self._pass()

    def _count_idle(self, when: float) -> None:
        held = [gpu for node in self.source.seen().nodes for gpu in node.gpus if gpu.hold is not None]
        self.idle += (when - self.now) * sum(100 - gpu.share for gpu in held) / 100

    def _come(self, job: Job) -> None:
        raw = builders.pod(job.name, job.share, created=self.now, **job.fields)
        builders.put(self.source, raw, now=self.now)

    def _end(self, name: str) -> None:
        uid = PodUID(f"uid-{name}")
        known = self.source.pods[uid]
        ended = replace(known.tenure, ended=self.now)
        self.source.pod(replace(known, phase="Succeeded", tenure=ended), now=self.now)
        self.source.pod_gone(uid)

    def _pass(self) -> None:
        """Until nothing more is decided at once."""
        more = True
        while more:
            plan = queueing.run(self.source, now=self.now)
            for lift in plan.lifts:
                if lift.earmark is not None:
                    self._bind(lift.record.name, tuple(gpu.uuid for gpu in lift.earmark.placed.gpus))
            more = plan.cut

    def _bind(self, name: str, uuids: tuple[str, ...]) -> None:
        job = self._jobs[name]
        self.waited[name], self.placed[name] = self.now - NOW - job.arrives, uuids
        changes = dict(job.fields)
        notes = builders.placement(name, uuids[0].split("-")[1], dict.fromkeys(uuids, min(job.share, 100)))
        notes |= changes.pop("annotations", {})
        node = uuids[0].split("-")[1]
        raw = builders.pod(
            name, job.share, node=node, annotations=notes, phase="Running", version=2, created=self.now, **changes
        )
        raw["status"]["startTime"] = builders.timestamp(self.now)
        builders.put(self.source, raw, now=self.now)
        if job.seconds is not None:
            self._push(self.now + job.seconds, name)

    def _push(self, when: float, name: str) -> None:
        heapq.heappush(self._agenda, (when, next(self._numbers), name))
