"""Remembers what the API server refused, so that the same is not asked for again at once. A restart asks once more."""

from datetime import datetime

from cotenant_operator.loop import executor
from cotenant_operator.state import views
from cotenant_operator.state.observed import Observed, Refusal
from cotenant_operator.state.views import Key


class Refusals:
    """The last refusal of each DLJob's workload, and that of its Service."""

    def __init__(self) -> None:
        self._found: dict[tuple[Key, bool], tuple[str, Refusal]] = {}

    def note(self, observed: Observed, error: executor.Refused, *, now: datetime) -> None:
        """Note that what was made for a DLJob is refused."""
        meta = observed.job.meta
        refusal = executor.refusal(error, generation=meta.generation, now=now)
        self._found[meta.key, error.beside] = (meta.uid, refusal)

    def of(self, job: views.DLJob | None, *, beside: bool = False) -> Refusal | None:
        """Return the refusal of a DLJob's workload, or of its Service (`beside`)."""
        if job is None:
            return None
        uid, refusal = self._found.get((job.meta.key, beside), ("", None))
        return refusal if uid == job.meta.uid else None

    def forget(self, key: Key) -> None:
        """Forget a DLJob that is gone."""
        for beside in (False, True):
            self._found.pop((key, beside), None)
