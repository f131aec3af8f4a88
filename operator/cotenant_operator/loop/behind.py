"""Since when DLJobs wait that the operator says it has seen their spec. Pure."""

from cotenant_operator.state import views
from cotenant_operator.state.views import Key


class Behind:
    """The DLJobs whose `metadata.generation` is not the one that their status observes."""

    def __init__(self) -> None:
        self._since: dict[Key, tuple[str, int, float]] = {}

    def note(self, key: Key, job: views.DLJob | None, *, now: float) -> None:
        """Take in a DLJob as it is now, at a time in seconds that only grow."""
        if job is None or not _owed(job):
            self._since.pop(key, None)
            return
        uid, generation = job.meta.uid, job.meta.generation
        if self._since.get(key, ("", 0, 0.0))[:2] != (uid, generation):
            self._since[key] = uid, generation, now

    def longest(self, *, now: float) -> float:
        """Return for how many seconds the one that waits longest does; 0: none waits."""
        return max((now - since for _, _, since in self._since.values()), default=0.0)


def _owed(job: views.DLJob) -> bool:
    left_alone = job.finished is not None or job.meta.deleting or job.status_problem is not None
    return not left_alone and job.observed_generation != job.meta.generation
