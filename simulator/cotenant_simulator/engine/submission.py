"""What is asked for an attempt at a job: its booking, and its pods as the extender reads them."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cotenant_api import pod, prediction
from cotenant_api.names import GPUModel, PodUID
from cotenant_extender.packing import policies
from cotenant_simulator.engine import growing, jobs, measuring, ways
from cotenant_simulator.twin import sites


@dataclass(slots=True, eq=False, kw_only=True)
class Course:
    """What a job carries from attempt to attempt.

    Attributes:
        attempts: how many there were.
        saved: part of the work, 0..1, that is safe.
        restarts: attempts that were waited after.
        measured: GPU models on which it was alone for a minute.
        grown: what it showed to need when it ran out of memory.
        again: what the next attempt books whatever was learned: the Job controller replaces the pod of a single
            replica, from the same template.
    """

    attempts: int = 0
    saved: float = 0.0
    restarts: int = 0
    measured: measuring.Models = frozenset()
    grown: growing.Grown = growing.NOTHING
    again: ways.Booking | None = None


class Asked(NamedTuple):
    """A pod; pods with equal `like` ask for the same but for their names."""

    demand: pod.Demand
    like: Hashable


class Desk:
    """Books jobs in one way under one policy.

    Attributes:
        lessons: what attempts that ended have left.
    """

    def __init__(self, nodes: Sequence[sites.Node], way: ways.Way, policy: policies.InForce) -> None:
        self.lessons = measuring.Lessons()
        self._way, self._policy = way, policy
        self._gpu_mib: dict[GPUModel, int] = {}
        for gpu in (gpu for node in nodes for gpu in node.gpus):
            self._gpu_mib[gpu.model] = max(gpu.memory_mib, self._gpu_mib.get(gpu.model, 0))
        self._usable: dict[frozenset[GPUModel], dict[GPUModel, int]] = {}
        self._documents: dict[int, tuple[int, prediction.Prediction]] = {}

    def past(self, job: jobs.Job, course: Course) -> ways.Past:
        """Return what is known of a job now."""
        return ways.Past(
            measured=course.measured,
            learned=self.lessons.of(job),
            grown=course.grown,
            usable=self.usable(job),
        )

    def booking(self, job: jobs.Job, course: Course, past: ways.Past) -> ways.Booking | None:
        """Return what its next attempt asks for; None: it is held."""
        again, course.again = course.again, None
        return again or self._way.booking(job, past, self._policy)

    def then(self, job: jobs.Job, past: ways.Past) -> ways.Then:
        """Return what follows from a minute alone, of an attempt that was booked by this past."""
        return self._way.measured(job, past, self._policy)

    def usable(self, job: jobs.Job) -> dict[GPUModel, int]:
        """Memory of the GPU models of the cluster that a job may use, in MiB."""
        models = frozenset(job.seconds)
        found = self._usable.get(models)
        if found is None:
            found = {model: mib for model, mib in self._gpu_mib.items() if model in models}
            self._usable[models] = found
        return found

    def largest_mib(self, attempt_past: ways.Past, booked: ways.Booking) -> int:
        """Return what a shared GPU that the booking is for can book at most."""
        predicted = booked.predicted
        if predicted is None:
            return ways.largest_mib(attempt_past.usable, self._policy)
        known = {model: mib for model, mib in attempt_past.usable.items() if model in predicted.by_gpu}
        return ways.largest_mib(known, self._policy)

    def pods(self, place: int, job: jobs.Job, number: int, booked: ways.Booking) -> Iterator[Asked]:
        """Yield the pods of an attempt, by index."""
        models = frozenset(job.seconds)
        models = models & booked.gpu_models if booked.gpu_models else models
        gang = pod.Gang(name=f"{job.name}-{number}", size=job.replicas) if job.replicas > 1 else None
        like = job.namespace, booked.share, booked.memory_mib, models, job.workload_type, self._number(booked.predicted)
        for index in range(job.replicas):
            last = f".{index:04}" if gang else ""
            demand = pod.Demand(
                uid=PodUID(f"{place:08}.{number}{last}"),
                namespace=job.namespace,
                name=f"{job.name}-{number}{last.replace('.', '-')}",
                container="main",
                share=booked.share,
                predicted=booked.predicted,
                memory_mib=booked.memory_mib,
                gpu_models=models,
                workload_type=job.workload_type,
                processes_per_gpu=1,
                gang=gang,
                queued_since=None,
                minimum_run_seconds=job.minimum_run_seconds,
            )
            yield Asked(demand, like)

    def _number(self, document: prediction.Prediction | None) -> int | None:
        """Documents in the order in which they are first seen; an id is its own as long as its object lives."""
        if document is None:
            return None
        return self._documents.setdefault(id(document), (len(self._documents), document))[0]
