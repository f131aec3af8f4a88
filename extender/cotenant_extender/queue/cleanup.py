"""What the leader removes: pods that can never start, and gangs that were bound in part.

A bound pod without valid placement that has not started is deleted after `GRACE_SECONDS`. A gang of which some pods
are bound and others, lifted, are not, is evicted whole after `GRACE_SECONDS`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cotenant_api.names import PodUID
from cotenant_extender import records
from cotenant_extender.ledger import index, ledger

GRACE_SECONDS = 60.0
RETRY_SECONDS = 30.0

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A pod to remove: by the Eviction API, or by deletion where it cannot have started."""

    record: records.Pod
    evict: bool
    reason: str
    message: str


class Cleaner:
    """Remembers since when something has been wrong."""

    def __init__(self) -> None:
        self._unplaced: dict[PodUID, float] = {}
        self._split: dict[index.GangKey, float] = {}

    def due(self, source: ledger.Ledger, *, now: float) -> list[Removal]:
        """What to remove now; asked for again after `RETRY_SECONDS` if it is still there."""
        found = []
        unplaced = {uid: record for uid, record in source.index.unplaced.items() if record.phase != records.RUNNING}
        for uid in _overdue(self._unplaced, unplaced, now=now):
            message = "bound without a valid placement: it cannot start"
            removal = Removal(record=unplaced[uid], evict=False, reason="NoPlacement", message=message)
            found.append(removal)
        split = {key: members for key, members in source.index.gangs.items() if _is_split(members.values())}
        for key in _overdue(self._split, split, now=now):
            found.extend(_evictions(key, split[key].values()))
        return found


def _overdue(since: dict[K, float], wrong: Mapping[K, object], *, now: float) -> list[K]:
    """Keys that have been wrong for long enough; keeps the times."""
    for key in [key for key in since if key not in wrong]:
        del since[key]
    for key in wrong:
        since.setdefault(key, now)
    overdue = [key for key in wrong if now - since[key] >= GRACE_SECONDS]
    for key in overdue:
        since[key] = now - GRACE_SECONDS + RETRY_SECONDS
    return overdue


def _lifted(members: Iterable[records.Pod]) -> list[records.Pod]:
    """Living members that are not behind a gate."""
    return [record for record in members if not (record.gates or record.finished or record.deleting)]


def _is_split(members: Iterable[records.Pod]) -> bool:
    bound = [record.node is not None for record in _lifted(members)]
    return any(bound) and not all(bound)


def _evictions(key: index.GangKey, members: Iterable[records.Pod]) -> list[Removal]:
    message = f"gang {key.name} was bound only in part: it starts again as a whole"
    return [Removal(record=record, evict=True, reason="GangSplit", message=message) for record in _lifted(members)]
