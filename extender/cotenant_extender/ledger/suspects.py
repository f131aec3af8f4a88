"""How long pods have run that may have caused a fault: until then they share no GPU with such a pod of another job.

A time begins when its pod is first seen to run. So one that runs when this process starts is a suspect for its whole
time from then on: that errs on the side of keeping suspects apart, and needs no clock but our own.
"""

from cotenant_api.names import PodUID
from cotenant_extender import records
from cotenant_extender.ledger import deadlines


class Suspects:
    """Times are by a clock that never goes back."""

    def __init__(self) -> None:
        self._until: deadlines.Deadlines[PodUID] = deadlines.Deadlines()
        self._cleared: set[PodUID] = set()

    def observe(self, record: records.Pod, *, now: float) -> None:
        """Take note of a pod as it is."""
        if record.finished:
            self.forget(record.uid)
            return
        seconds = 0 if record.request is None else record.request.demand.suspect_seconds
        known = record.uid in self._until.at or record.uid in self._cleared
        if seconds and record.phase == records.RUNNING and not known:
            self._until.put(record.uid, now + seconds)

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that holds nothing any more."""
        self._until.drop(uid)
        self._cleared.discard(uid)

    def of(self, record: records.Pod) -> str:
        """Return who is a suspect still, see `pod.Demand.suspect`; empty: nobody."""
        return "" if record.request is None or record.uid in self._cleared else record.request.demand.suspect

    def cleared(self, *, now: float) -> list[PodUID]:
        """Return the pods that have run for long enough since this was asked last."""
        found = self._until.due(now=now)
        self._cleared.update(found)
        return found
