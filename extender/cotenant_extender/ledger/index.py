"""Which pods wait, which belong together, and which have not been told that they are placed."""

from typing import TypeAlias

from cotenant_api import pod
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records

GangKey: TypeAlias = pod.GangKey


class Index:
    """Pods by what is to be done about them.

    Attributes:
        pending: pods that ask for a share and are not yet bound.
        gangs: the pods of each gang; without those that failed.
        unreported: placed pods whose condition does not say so yet.
        unplaced: bound pods that ask for a share and have no valid placement.
    """

    def __init__(self) -> None:
        self.pending: dict[PodUID, records.Pod] = {}
        self.gangs: dict[GangKey, dict[PodUID, records.Pod]] = {}
        self.unreported: dict[PodUID, records.Pod] = {}
        self.unplaced: dict[PodUID, records.Pod] = {}
        self._gang_of: dict[PodUID, GangKey] = {}

    def put(self, record: records.Pod) -> None:
        """A pod as it is now."""
        self.remove(record.uid)
        uid, living = record.uid, not record.finished and not record.deleting
        if record.pending:
            self.pending[uid] = record
        if record.gang is not None and record.phase != "Failed":
            self._gang_of[uid] = record.gang
            self.gangs.setdefault(record.gang, {})[uid] = record
        if record.asks and record.node is not None and living:
            if record.placement is None:
                self.unplaced[uid] = record
            elif record.packed is None or record.packed[0] != PackedReason.PLACED:
                self.unreported[uid] = record

    def remove(self, uid: PodUID) -> None:
        """A pod that is gone, or about to be put again."""
        self.pending.pop(uid, None)
        self.unreported.pop(uid, None)
        self.unplaced.pop(uid, None)
        key = self._gang_of.pop(uid, None)
        if key is not None:
            del self.gangs[key][uid]
            if not self.gangs[key]:
                del self.gangs[key]
