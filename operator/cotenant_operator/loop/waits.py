"""Since when DLJobs wait: to be seen by the operator, to start on the GPUs that they have, to be heard of. Pure."""

from collections.abc import Callable, Hashable

from cotenant_api import conditions, dljob
from cotenant_operator import reasons
from cotenant_operator.state import views
from cotenant_operator.state.views import Key


class Waits:
    """The DLJobs that wait for one thing.

    Args:
        waits_for: what a DLJob waits for; None: it does not wait. What it waits for anew, it waits for from then on.
        pauses: whether one that waited, and does not now, has not got it either.
    """

    def __init__(
        self,
        waits_for: Callable[[views.DLJob], Hashable | None],
        *,
        pauses: Callable[[views.DLJob], bool] = lambda _: False,
    ) -> None:
        self._waits_for, self._pauses = waits_for, pauses
        self._since: dict[Key, tuple[Hashable, float]] = {}

    def note(self, key: Key, job: views.DLJob | None, *, now: float) -> None:
        """Take in a DLJob as it is now, at a time in seconds that only grow."""
        what = None if job is None else self._waits_for(job)
        if what is None and job is not None and self._pauses(job):
            return
        if what is None:
            self._since.pop(key, None)
        elif self._since.get(key, (None, 0.0))[0] != what:
            self._since[key] = what, now

    def longest(self, *, now: float) -> float:
        """Return for how many seconds the one that waits longest does; 0: none waits."""
        return max((now - since for _, since in self._since.values()), default=0.0)


def unobserved(job: views.DLJob) -> Hashable | None:
    """Return the spec that its status does not observe yet."""
    left_alone = job.finished is not None or job.meta.deleting or job.status_problem is not None
    return None if left_alone or job.observed_generation == job.meta.generation else (job.meta.uid, job.meta.generation)


def not_started(job: views.DLJob) -> Hashable | None:
    """Return the DLJob whose container fails to start on the GPUs that it has."""
    return job.meta.uid if job.phase is dljob.Phase.STARTING and not job.meta.deleting else None


def lost(job: views.DLJob) -> Hashable | None:
    """Return the DLJob of which pods are on a node that does not answer."""
    if job.finished is not None or job.ready or job.meta.deleting:
        return None
    found = conditions.find(job.status.conditions, dljob.READY)
    return job.meta.uid if found is not None and found.reason == reasons.PODS_LOST else None


def is_not_ready(job: views.DLJob) -> bool:
    """Return whether a DLJob that did not start has still not.

    Its next attempt waits, or its pods are being created.
    """
    waits = job.phase in (dljob.Phase.PENDING, dljob.Phase.QUEUED, dljob.Phase.RUNNING)
    return waits and not job.ready and not job.meta.deleting
