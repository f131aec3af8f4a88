"""Since when pods count as waiting, where that is another time than the one that they say themselves.

A place in the queue stands for a pod that could be placed as it is. So it begins anew

- when the last gate goes that is not ours,
- when the author changes what the pod asks for, what it tolerates, or what it runs.

A pod of a DLJob's Deployment, whose controller makes pods at any time, takes the place of one that leaves, if it asks
for no more and may go where that one might, and nowhere else: else a rollout would give the service's GPUs to whoever
waits longer, or its age to other GPUs. One that leaves is followed by one.

What was judged so stands in the pod's condition, as its transition time: another process goes on from there.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Final

from cotenant_api import names, pod, prediction
from cotenant_api.names import PodUID
from cotenant_extender import records

INHERIT_SECONDS: Final = 300
"""So long after a pod began to leave another may take its place."""
_CONTROLLERS: Final = frozenset({"ReplicaSet", "Job"})
"""What makes the pods of a DLJob. No other pod takes a place or leaves one, whatever its labels say."""


@dataclass(frozen=True, slots=True)
class _Left:
    """A place that is free, of this pod."""

    of: Hashable
    by: records.Pod
    until: float


class Waits:
    """Times are in seconds since the epoch.

    Attributes:
        now: the latest time that it was told.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._since: dict[PodUID, float] = {}
        self._followed: set[PodUID] = set()
        self._free: dict[Hashable, list[_Left]] = {}
        self._ending: deque[_Left] = deque()
        self._heirs: dict[Hashable, dict[PodUID, records.Pod]] = {}
        self._named: dict[PodUID, Hashable] = {}

    def observe(self, known: records.Pod | None, record: records.Pod, *, now: float) -> records.Pod:
        """Return a pod as it is, with the time since when it counts as waiting."""
        self.now = max(self.now, now)
        if not record.pending:
            if record.node is not None and known is not None and record.placement is not None:
                # While it is bound nothing is told of its wait: a pod that follows it is as old as it was.
                record = waiting_since(record, known.since)
            self._forget(record.uid)
            return record
        if known is not None and _begins_anew(known, record):
            self._since[record.uid] = float(int(now))
        elif known is None:
            self._inherit(record)
        record = waiting_since(record, self._since.get(record.uid, record.since))
        self._note(record)
        return record

    def left(self, record: records.Pod) -> tuple[PodUID, float] | None:
        """Take note of a pod that leaves its GPU.

        Returns:
            The pod that waits already and takes its place, and since when it then counts as waiting; None: there is
            none yet.
        """
        of = _place_of(record)
        if of is None or record.node is None or record.placement is None or record.uid in self._followed:
            return None
        self._followed.add(record.uid)
        heirs = [heir for heir in self._heirs.get(of, {}).values() if _follows(heir, record)]
        if not heirs:
            place = _Left(of, record, self.now + INHERIT_SECONDS)
            self._free.setdefault(of, []).append(place)
            self._ending.append(place)
            self._end()
            return None
        heir = min(heirs, key=lambda one: one.since)
        self._since[heir.uid] = record.since
        self._unnote(heir.uid)
        return heir.uid, record.since

    def gone(self, uid: PodUID) -> None:
        """Forget a pod that is gone."""
        self._forget(uid)
        self._followed.discard(uid)

    def _inherit(self, record: records.Pod) -> None:
        self._end()
        of = _place_of(record)
        if of is None or record.told is not None:
            return
        place = next((place for place in self._free.get(of, ()) if _follows(record, place.by)), None)
        if place is not None:
            self._take(place)
            self._since[record.uid] = place.by.since

    def _end(self) -> None:
        """Forget the places that nobody took in time."""
        while self._ending and self._ending[0].until <= self.now:
            self._take(self._ending.popleft())

    def _take(self, place: _Left) -> None:
        left = [other for other in self._free.get(place.of, ()) if other is not place]
        if left:
            self._free[place.of] = left
        else:
            self._free.pop(place.of, None)

    def _note(self, record: records.Pod) -> None:
        """Note a pod that may take the place of another, until it has taken one."""
        self._unnote(record.uid)
        of = _place_of(record)
        if of is not None and record.uid not in self._since:
            self._named[record.uid] = of
            self._heirs.setdefault(of, {})[record.uid] = record

    def _unnote(self, uid: PodUID) -> None:
        of = self._named.pop(uid, None)
        if of is not None:
            del self._heirs[of][uid]
            if not self._heirs[of]:
                del self._heirs[of]

    def _forget(self, uid: PodUID) -> None:
        self._unnote(uid)
        self._since.pop(uid, None)


def waiting_since(record: records.Pod, since: float) -> records.Pod:
    """Return a pod that counts as waiting since another time."""
    if record.since == since:
        return record
    request = None if record.request is None else replace(record.request, since=since)
    return replace(record, since=since, request=request)


def _begins_anew(known: records.Pod, record: records.Pod) -> bool:
    if not known.pending:
        return False
    return (bool(_held(known)) and not _held(record)) or _asked(known) != _asked(record)


def _held(record: records.Pod) -> list[str]:
    """Return the gates that are not ours."""
    return [gate for gate in record.gates if gate != names.PACKING_GATE]


def _asked(record: records.Pod) -> Hashable:
    """Return what a pod asks for and runs that its author may change."""
    request = record.request
    if request is None:
        return None
    return (request.alike, request.demand.gang, request.constraints.tolerations, record.images)


def _follows(record: records.Pod, left: records.Pod) -> bool:
    """Return whether a pod may take the place of another.

    It is younger, asks for no more, and may go to the same nodes.
    """
    if record.request is None or left.request is None or record.share > left.share or record.since <= left.since:
        return False
    if record.request.constraints != left.request.constraints:
        return False
    return _asks_for_no_more(record.request.demand, left.request.demand)


def _asks_for_no_more(demand: pod.Demand, than: pod.Demand) -> bool:
    """Return whether nothing that is booked for a pod is more, on any GPU model. Without a prediction shares tell."""
    if demand.predicted is None and than.predicted is None:
        # Without an amount of its own a pod is booked the share's part of the memory, which nobody knows here.
        if demand.memory_mib is None or than.memory_mib is None:
            return demand.memory_mib is than.memory_mib
        return demand.memory_mib <= than.memory_mib
    if demand.predicted is None or than.predicted is None:
        return False
    mine, theirs = demand.predicted.by_gpu, than.predicted.by_gpu
    return mine.keys() == theirs.keys() and all(
        mine[model].utilization.upper <= theirs[model].utilization.upper
        and mine[model].utilization.q50 <= theirs[model].utilization.q50
        and _memory_mib(demand, mine[model]) <= _memory_mib(than, theirs[model])
        for model in mine
    )


def _memory_mib(demand: pod.Demand, predicted: prediction.GPUPrediction) -> int:
    return predicted.memory_mib.upper if demand.memory_mib is None else demand.memory_mib


def _place_of(record: records.Pod) -> Hashable:
    """Return what pods have in common that may take one another's place; None: it takes none and leaves none."""
    request, dljob = record.request, record.labels.get(names.DLJOB_UID_LABEL)
    if request is None or not dljob or record.tenure.owner not in _CONTROLLERS:
        return None
    demand = request.demand
    if demand.queued_since is not None or demand.gang is not None:
        return None
    return (record.namespace, dljob, record.priority, demand.gpu_models)
