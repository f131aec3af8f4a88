"""Where waiting pods may go beside what their spec says: where their volumes are, and what kube-scheduler refused.

Both become part of a pod's constraints, so that everything that looks for a place knows them. The request of a pod that
gets other constraints is another kind of request, so that nothing that was found out about the old one holds for it.
"""

from dataclasses import replace

from cotenant_api.names import PodUID
from cotenant_extender import records
from cotenant_extender.ledger import departures, tries, volumes


class Hosts:
    """What is known of waiting pods' hosts.

    Attributes:
        volumes: claims, volumes and storage classes.
        tries: what kube-scheduler's tries told.
        departures: pods that have ended on their nodes.
    """

    def __init__(self) -> None:
        self.volumes, self.tries = volumes.Volumes(), tries.Tries()
        self.departures = departures.Departures()

    def observe(self, known: records.Pod | None, record: records.Pod) -> records.Pod:
        """Note a pod as it is, and return it with all of its constraints."""
        self.tries.observe(known, record)
        self.volumes.follow(record)
        if record.finished and known is not None and not known.finished:
            self._depart(record)
        return self.constrained(record)

    def gone(self, uid: PodUID, last: records.Pod | None) -> None:
        """Note that a pod is gone; `last` is its last state, where that is known."""
        self.tries.forget(uid)
        self.volumes.forget(uid)
        if last is not None and not last.finished:
            self._depart(last)

    def stop(self) -> list[PodUID]:
        """Follow kube-scheduler's tries no longer. Return the pods of which less is known now."""
        self.departures.clear()
        return self.tries.stop()

    def _depart(self, record: records.Pod) -> None:
        """Keep a pod for the next passes, if there are any."""
        if self.tries.following and record.node is not None:
            self.departures.add(record)

    def constrained(self, record: records.Pod) -> records.Pod:
        """Return a pod with the constraints that follow from what is known now."""
        if record.request is None or not record.pending:
            return record
        standing, verdict = record.request.constraints, self.tries.verdict(record.uid)
        if not record.volume_claims and verdict == standing.refused:
            return record
        wanted = replace(standing, volumes=self.volumes.where(record), refused=verdict)
        if wanted == standing:
            return record
        return replace(record, request=records.constrained(record.request, wanted))
