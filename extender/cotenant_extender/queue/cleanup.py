"""What the leader removes: pods that can never start, gangs that were bound in part, and whom an agent wants evicted.

A node agent asks in its GPUNode; it is heard of pods that are placed on its own node, and of no others.

A bound pod without valid placement that has not started is deleted after `GRACE_SECONDS`. A gang of which some pods
are bound and others are not is evicted whole after `GRACE_SECONDS`, but not while kube-scheduler binds all of these: it
may wait for a volume. Nor if it was whole before: then it has lost a pod, and what replaces that pod may wait for a
node as long as it takes. A pod that is behind its gate stays there: nothing has to start again. A gang was whole before

- if the leader saw all of its pods bound or succeeded, and one of those that were bound still runs; or
- if each of its pods that wait was created more than `SETTLED_SECONDS` after another of its pods was bound. All pods of
  a gang are there before any is lifted, so such a pod replaces one that was lost; and by then the gang was whole, or it
  would have been evicted. So a new leader knows it, too.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cotenant_api import gpunode
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import index, ledger

GRACE_SECONDS = 60.0
RETRY_SECONDS = 30.0
SETTLED_SECONDS = GRACE_SECONDS + RETRY_SECONDS
WORDS = {
    gpunode.EvictionReason.MEMORY_OVERUSE: "it uses more GPU memory than was booked",
    gpunode.EvictionReason.BLOCKS_RECOVERY: "its processes keep a GPU from recovering after a fault",
}

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A pod to remove: by the Eviction API, or by deletion where it cannot have started."""

    record: records.Pod
    evict: bool
    reason: str
    message: str


class Cleaner:
    """Remembers since when something has been wrong, and which gangs were whole."""

    def __init__(self) -> None:
        self._unplaced: dict[PodUID, float] = {}
        self._split: dict[index.GangKey, float] = {}
        self._whole: dict[index.GangKey, frozenset[PodUID]] = {}
        self._asked: dict[PodUID, float] = {}

    def due(self, source: ledger.Ledger, *, now: float) -> list[Removal]:
        """Return what to remove now; asked for again after `RETRY_SECONDS` if it is still there."""
        found = []
        unplaced = {uid: record for uid, record in source.index.unplaced.items() if record.phase != records.RUNNING}
        for uid in _overdue(self._unplaced, unplaced, now=now):
            message = "bound without a valid placement: it cannot start"
            removal = Removal(record=unplaced[uid], evict=False, reason="NoPlacement", message=message)
            found.append(removal)
        split = self._split_gangs(source)
        for key in _overdue(self._split, split, now=now):
            found.extend(_evictions(key, split[key].values()))
        asked = {removal.record.uid: removal for removal in _asked_for(source)}
        found.extend(asked[uid] for uid in _overdue(self._asked, asked, now=now, grace=0))
        return found

    def _split_gangs(self, source: ledger.Ledger) -> dict[index.GangKey, index.Members]:
        """Return the gangs that are bound in part, not about to be whole and never were; note those that are whole."""
        gangs = source.index.gangs
        self._whole = {key: uids for key, uids in self._whole.items() if key in gangs}
        split = {}
        for key, members in gangs.items():
            alive = _alive(members.values())
            bound = [record for record in alive if record.node is not None]
            if len(bound) + _succeeded(members.values()) >= _size(members.values()):
                self._whole[key] = frozenset(record.uid for record in bound)
            elif 0 < len(bound) < len(alive) and not (self._was_whole(key, alive) or _is_being_bound(source, alive)):
                split[key] = members
        return split

    def _was_whole(self, key: index.GangKey, alive: Sequence[records.Pod]) -> bool:
        seen = self._whole.get(key, frozenset())
        if any(record.uid in seen for record in alive):
            return True
        bound_since = min((record.scheduled for record in alive if record.scheduled is not None), default=math.inf)
        waiting = (record.created or 0.0 for record in alive if record.node is None)
        return min(waiting) - bound_since > SETTLED_SECONDS


def _is_being_bound(source: ledger.Ledger, alive: Iterable[records.Pod]) -> bool:
    """Return whether kube-scheduler binds all pods that are not bound, or waits for their volumes."""
    waiting = (record.uid for record in alive if record.node is None)
    return all(uid in source.reserved or source.earmarks.under_way(uid) for uid in waiting)


def stands(source: ledger.Ledger, removal: Removal) -> bool:
    """Return whether an agent still asks for what it asked for; other removals stand."""
    node, uid = removal.record.node, removal.record.uid
    if removal.reason not in WORDS or node is None:
        return True
    return source.asked.get(node, {}).get(uid) == removal.reason and _is_heard(source, node, removal.reason)


def _is_heard(source: ledger.Ledger, node: NodeName, reason: str) -> bool:
    """Return whether an agent's word counts: of one that is silent nobody knows whether the GPU has recovered since."""
    return reason != gpunode.EvictionReason.BLOCKS_RECOVERY or source.nodes[node].alive


def _asked_for(source: ledger.Ledger) -> Iterator[Removal]:
    """Evictions that agents ask for, of pods on their own nodes."""
    for node, asked in source.asked.items():
        for uid, reason in asked.items():
            if not _is_heard(source, node, reason):
                continue
            record = source.pods.get(uid)
            if record is None or record.node != node or record.finished or record.deleting or not record.asks:
                continue
            yield Removal(record=record, evict=True, reason=reason, message=f"the agent of {node}: {WORDS[reason]}")


def _overdue(since: dict[K, float], wrong: Mapping[K, object], *, now: float, grace: float = GRACE_SECONDS) -> list[K]:
    """Keys that have been wrong for so long, in seconds; keeps the times."""
    for key in [key for key in since if key not in wrong]:
        del since[key]
    for key in wrong:
        since.setdefault(key, now)
    overdue = [key for key in wrong if now - since[key] >= grace]
    for key in overdue:
        since[key] = now - grace + RETRY_SECONDS
    return overdue


def _alive(members: Iterable[records.Pod]) -> list[records.Pod]:
    return [record for record in members if not (record.finished or record.deleting)]


def _succeeded(members: Iterable[records.Pod]) -> int:
    return sum(1 for record in members if record.phase == "Succeeded")


def _size(members: Iterable[records.Pod]) -> int:
    """Return how many pods a gang must have, by the member that says the most."""
    gangs = (record.request.demand.gang for record in members if record.request is not None)
    return max((gang.size for gang in gangs if gang is not None), default=1)


def _evictions(key: index.GangKey, members: Iterable[records.Pod]) -> list[Removal]:
    message = f"gang {key.name} was bound only in part: it starts again as a whole"
    lifted = [record for record in _alive(members) if not record.gates]
    return [Removal(record=record, evict=True, reason="GangSplit", message=message) for record in lifted]
