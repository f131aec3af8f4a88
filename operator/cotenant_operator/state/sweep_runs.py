"""Which DLJobs may be runs of which sweep: by their names, for anybody may take a label away. No I/O."""

from collections.abc import Mapping

from cotenant_operator.state import sweeps, views
from cotenant_operator.state.views import Key

Keys = frozenset[Key]


class SweepRuns:
    """The runs by their sweep."""

    def __init__(self) -> None:
        self._runs: dict[Key, set[Key]] = {}

    def note(self, job: views.DLJob) -> None:
        """Note which sweep a DLJob may be a run of, whatever else of it can be kept."""
        sweep = _sweep(job.meta.key)
        if job.meta.owner_uid is not None and sweep is not None:
            self._runs.setdefault(sweep, set()).add(job.meta.key)

    def sweep_of(self, run: Key) -> Keys:
        """Return the sweep of which a DLJob may be a run, or was one."""
        sweep = _sweep(run)
        return frozenset() if sweep is None or run not in self._runs.get(sweep, ()) else frozenset([sweep])

    def told_by(self, job: views.DLJob, before: views.DLJob | None) -> Keys:
        """Return the sweep of a run, which is looked at when the run has come, ended, or does something else."""
        told = before is not None and _told(before) == _told(job)
        return frozenset() if told else self.sweep_of(job.meta.key)

    def suspended_sweep_of(self, run: Key, dljobs: Mapping[Key, views.DLJob]) -> Keys:
        """Return the sweep of a run where it is suspended: its status tells of pods that have not ended."""
        return frozenset(key for key in self.sweep_of(run) if key in dljobs and dljobs[key].suspended)

    def drop(self, run: Key) -> None:
        """Forget a run."""
        for sweep in self.sweep_of(run):
            self._runs[sweep].discard(run)
            if not self._runs[sweep]:
                del self._runs[sweep]

    def of(self, sweep: Key, uid: str, dljobs: Mapping[Key, views.DLJob]) -> tuple[views.DLJob, ...]:
        """Return the DLJobs that a sweep of this UID controls."""
        found = (dljobs.get(run) for run in self._runs.get(sweep, ()))
        return tuple(run for run in found if run is not None and run.meta.owner_uid == uid)

    def count_unstopped(
        self, sweep: Key, uid: str, dljobs: Mapping[Key, views.DLJob], pods: Mapping[Key, Mapping[str, views.Pod]]
    ) -> int:
        """Return how many of the runs that a sweep of this UID controls have pods that have not ended."""
        living = {
            pod.dljob_uid for run in self._runs.get(sweep, ()) for pod in pods.get(run, {}).values() if not pod.ended
        }
        return sum(run.meta.uid in living for run in self.of(sweep, uid, dljobs))


def _sweep(run: Key) -> Key | None:
    found = sweeps.parsed(run.name)
    return None if found is None else Key(run.namespace, found[0])


def _told(run: views.DLJob) -> tuple[object, ...]:
    """Return what a sweep is told of a run."""
    meta = run.meta
    made = meta.uid, meta.owner_uid, meta.deleting, run.suspend_written, run.sweep_digest
    return made, run.phase, run.finished is None, run.stalled, run.started, run.outdated
