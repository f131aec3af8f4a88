"""Moves the version of a workload before anything is decided on it, where an earlier patch may still be under way.

A patch names the version of the object on which it was decided. One that got no answer may take effect at any later
time, unless something was written to the object after it. A decision that is dropped writes nothing: so the fence does.
A new process does not know what the former one sent, and fences every workload that has not ended.
"""

from collections.abc import Iterator

from cotenant_operator import labels
from cotenant_operator.plans import actions
from cotenant_operator.state import views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.views import Key


class Fences:
    """Remembers for which workloads no earlier patch can take effect any more."""

    def __init__(self) -> None:
        self._safe: dict[Key, set[str]] = {}

    def due(self, key: Key, observed: Observed) -> Iterator[actions.Change]:
        """Return the fences to be written before the next decision on a DLJob."""
        safe = self._safe.get(key, set())
        for kind, meta in _workloads(observed):
            if meta.uid not in safe:
                yield actions.Change.of(kind, meta, {"metadata": {"annotations": {labels.FENCE: str(meta.version)}}})

    def answered(self, key: Key, uid: str) -> None:
        """Note a write to a workload that was answered: what was sent before it names an older version."""
        self._safe.setdefault(key, set()).add(uid)

    def unanswered(self, key: Key, uid: str) -> None:
        """Note a patch of a workload that may still take effect."""
        self._safe.get(key, set()).discard(uid)

    def keep(self, key: Key, observed: Observed) -> None:
        """Forget the workloads of a DLJob that have ended or are gone."""
        left = self._safe.get(key, set()).intersection(meta.uid for _, meta in _workloads(observed))
        if left:
            self._safe[key] = left
        else:
            self.forget(key)

    def forget(self, key: Key) -> None:
        """Forget a DLJob that is gone or over."""
        self._safe.pop(key, None)


def _workloads(observed: Observed) -> Iterator[tuple[Kind, views.Meta]]:
    """Return the workloads that a patch can still change for the worse."""
    for job in observed.jobs:
        if job.complete is None and job.failed is None and not job.meta.deleting:
            yield Kind.JOB, job.meta
    deployment = observed.deployment
    if deployment is not None and deployment.meta.owner_uid == observed.job.meta.uid and not deployment.meta.deleting:
        yield Kind.DEPLOYMENT, deployment.meta
