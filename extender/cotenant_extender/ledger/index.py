"""Which pods wait, which belong together, and which have not been told that they are placed."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from cotenant_api import pod
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import mates
from cotenant_extender.packing import view

GangKey: TypeAlias = pod.GangKey
Members: TypeAlias = dict[PodUID, records.Pod]


class Index:
    """Pods by what is to be done about them.

    Attributes:
        pending: pods that ask for a share and are not yet bound.
        gangs: the pods that count for each gang, at most as many as its size; without those that failed.
        unreported: placed pods whose condition does not say so yet.
        unplaced: bound pods that ask for a share and have no valid placement.
    """

    def __init__(self) -> None:
        self.pending: dict[PodUID, records.Pod] = {}
        self.gangs: dict[GangKey, Members] = {}
        self.unreported: dict[PodUID, records.Pod] = {}
        self.unplaced: dict[PodUID, records.Pod] = {}
        self._mates: dict[GangKey, mates.Mates] = {}
        self._gang_of: dict[PodUID, GangKey] = {}
        self._priorities: dict[GangKey, set[int]] = {}

    def put(self, record: records.Pod) -> set[PodUID]:
        """Put a pod in as it is now. Return the other pods that count for their gang now or do so no longer."""
        moved = self.remove(record.uid)
        uid, living = record.uid, not record.finished and not record.deleting
        if record.pending:
            self.pending[uid] = record
        if record.gang is not None and record.phase != "Failed":
            self._gang_of[uid] = record.gang
            moved ^= self._join(record.gang, record)
            self._priorities.setdefault(_named(record.gang), set()).add(record.gang.priority)
        if record.asks and record.node is not None and living:
            if record.placement is None:
                self.unplaced[uid] = record
            elif record.packed is None or record.packed[0] != PackedReason.PLACED:
                self.unreported[uid] = record
        return moved

    def _join(self, key: GangKey, record: records.Pod) -> set[PodUID]:
        found = self._mates.get(key)
        if found is None:
            found = self._mates[key] = mates.Mates(key.size)
            self.gangs[key] = found.counted
        last = found.put(record)
        return set() if last is None or last == record.uid else {last}

    def remove(self, uid: PodUID) -> set[PodUID]:
        """Take out a pod that is gone, or about to be put again. Return the pod that counts in its place."""
        self.pending.pop(uid, None)
        self.unreported.pop(uid, None)
        self.unplaced.pop(uid, None)
        key = self._gang_of.pop(uid, None)
        moved: set[PodUID] = set()
        if key is not None:
            heir = self._mates[key].remove(uid)
            moved = set() if heir is None else {heir}
            if not self._mates[key]:
                del self.gangs[key], self._mates[key]
                self._priorities[_named(key)].discard(key.priority)
                if not self._priorities[_named(key)]:
                    del self._priorities[_named(key)]
        return moved

    def gang_of(self, record: records.Pod) -> GangKey | None:
        """Return the gang for which a pod counts; None: it is of none, or its gang has all of its pods without it."""
        key = record.gang
        return key if key is not None and record.uid in self.gangs.get(key, ()) else None

    def of_other_priorities(self, key: GangKey) -> int:
        """Return how many pods differ from those of a gang in nothing but their priority."""
        others = self._priorities.get(_named(key), set()) - {key.priority}
        return sum(len(self.gangs[key._replace(priority=priority)]) for priority in others)

    def asked(self, record: records.Pod) -> view.Request | None:
        """Return what a pod asks for, as old as its gang: see `aged`."""
        if record.request is None or record.gang is None:
            return record.request
        return aged(record.request, complete_since(record, self.gangs.get(record.gang, {}).values()))


def complete_since(record: records.Pod, mates: Iterable[records.Pod]) -> float:
    """Return since when a pod has waited, and all of its gang that wait, in seconds since the epoch.

    A pod that came long before the others lends them nothing of its age.
    """
    waiting = (mate.since for mate in mates if mate.pending and (mate.gated or not mate.gates))
    return max([record.since, *waiting])


def aged(request: view.Request, since: float) -> view.Request:
    """Return what a pod of a gang asks for with the gang's age, by which it may use what is held for younger jobs."""
    return request if request.since == since else replace(request, since=since)


def _named(key: GangKey) -> GangKey:
    """Return the key without the priority."""
    return key._replace(priority=0)
