"""The roster: who is on which GPU with what priority, as arrays, and who could be made to leave.

A row is read again when it was written, and when an event came of one of its tenants or of a pod of its gang: whether a
pod leaves, and since when it runs, changes no booking, and so writes no row.

A tenant that is leaving (it is being deleted, or gone but not yet ended on its node) is waited for. An earmark can be
taken back. A running pod can be evicted when it has run for its `minimum-run-seconds`, up to the policy's
`maxMinimumRunSeconds`; a pod of a gang when its gang has. What is being bound stays. A gang that is larger than the
policy lets gangs be protects nobody: each of its pods counts alone.
"""

import copy
import enum
import math
from collections import Counter
from collections.abc import Collection

import numpy as np

from cotenant_api import pod
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records, tenures
from cotenant_extender.ledger import claims, ledger
from cotenant_extender.packing import fleet, rules, view
from cotenant_extender.steps import Steps

_FIELDS = {
    "priority": np.int64,
    "standing": np.uint8,
    "share": np.int64,
    "memory_mib": np.int64,
    "suspected": np.uint8,
    "pods": np.int64,
    "ready": np.float64,
    "started": np.float64,
    "tokens": np.int64,
    "cpu_millis": np.int64,
    "memory_bytes": np.int64,
    "begun": np.float64,
    "deadline": np.float64,
    "leaves": np.float64,
    "grace": np.float64,
    "endless": np.uint8,
    "kind": np.int64,
}


_NOBODY: list[tuple[float, ...]] = [()] * len(_FIELDS)
PODS_PER_STEP = 2000
"""A step takes about two milliseconds: filter waits for it."""
ROWS = 50
"""Rows that are read at a time: a new leader's first search waits for them all."""


class Standing(enum.IntEnum):
    """How a tenant can be made to leave."""

    FIXED = 0
    LEAVING = 1
    EARMARKED = 2
    RUNNING = 3


class Roster:
    """Tenants of all GPUs.

    Attributes:
        priority, standing: shape (N, G, T), of each tenant; there is none where `standing` is FIXED and `share` 0.
        share, memory_mib: shape (N, G, T), what it counts for on that GPU.
        suspected: shape (N, G, T), whether it may have caused a fault.
        pods: shape (N, G, T), how many pods leave with it: a gang goes as a whole.
        ready: shape (N, G, T), from when it may be evicted, in seconds since the epoch; inf: not known.
        started: shape (N, G, T), since when it runs, in seconds since the epoch.
        tokens, cpu_millis, memory_bytes: shape (N, G, T), what it requests of its node.
        begun: shape (N, G, T), as `started`, else since when it is bound; NaN: it is not yet, 0: it may never be.
        deadline: shape (N, G, T), seconds from its start; inf: it has none.
        leaves: shape (N, G, T), its `deletionTimestamp`, in seconds since the epoch; 0: it is not being deleted.
        grace: shape (N, G, T), seconds that it may take to leave.
        endless: shape (N, G, T), whether it runs until somebody deletes it.
        kind: shape (N, G, T), its number among the kinds of `runs`.
        uids: by node row and GPU, the tenants in the order of T.
    """

    priority: rules.Array
    standing: rules.Array
    share: rules.Array
    memory_mib: rules.Array
    suspected: rules.Array
    pods: rules.Array
    ready: rules.Array
    started: rules.Array
    tokens: rules.Array
    cpu_millis: rules.Array
    memory_bytes: rules.Array
    begun: rules.Array
    deadline: rules.Array
    leaves: rules.Array
    grace: rules.Array
    endless: rules.Array
    kind: rules.Array

    def __init__(self) -> None:
        self.uids: list[list[list[PodUID]]] = []
        self._rows: dict[NodeName, int] | None = None
        self._clock = self._epoch = -1
        self._priorities: dict[PodUID, int] = {}
        self._counts: Counter[int] = Counter()
        self._gangs: dict[PodUID, pod.GangKey] = {}
        self._outdated: set[NodeName] = set()
        self._allocate(0, 0, 0)

    def prepare(self, source: ledger.Ledger) -> Steps[None]:
        """Count the priorities of all that hold GPUs, in steps."""
        uids = list(source.pods)
        for start in range(0, len(uids), PODS_PER_STEP):
            self.note(source, uids[start : start + PODS_PER_STEP])
            yield

    def note(self, source: ledger.Ledger, touched: Collection[PodUID]) -> None:
        """Keep count of the priorities of those that hold GPUs, and note which rows have to be read again."""
        for uid in touched:
            self._note_rows(source, uid)
            before = self._priorities.pop(uid, None)
            if before is not None:
                self._counts[before] -= 1
                if not self._counts[before]:
                    del self._counts[before]
            record, claim = source.pods.get(uid), source.claims.get(uid)
            if record is not None and claim is not None and claim.bookings:
                self._priorities[uid] = record.priority
                self._counts[record.priority] += 1

    def _note_rows(self, source: ledger.Ledger, uid: PodUID) -> None:
        """Where a pod is, and where those are that leave with it, or did so far."""
        record, gangs = source.pods.get(uid), [self._gangs.pop(uid, None)]
        if record is not None and record.gang is not None:
            self._gangs[uid] = record.gang
            gangs.append(record.gang)
        mates = {mate for gang in gangs if gang is not None for mate in source.index.gangs.get(gang, ())}
        standing = (source.claims.get(mate) for mate in (uid, *mates))
        self._outdated.update(claim.node for claim in standing if claim is not None and claim.bookings)

    def levels(self, below: int) -> list[int]:
        """Return the priorities of those that hold GPUs, lowest first, strictly below one."""
        return sorted(priority for priority in self._counts if priority < below)

    def update(self, source: ledger.Ledger, seen: fleet.Fleet) -> bool:
        """Read rows that may differ from what was read, at most `ROWS`; whether that was all of them."""
        most = max(int(seen.tenants.max(initial=0)), 1)
        narrow = self.share.shape[1] != seen.present.shape[1] or self.share.shape[2] < most
        if self._rows is not seen.rows or narrow or self._epoch != source.runs.epoch:
            nodes, gpus = seen.present.shape
            self._allocate(nodes, gpus, most)
            self._rows, self._clock, self._epoch = seen.rows, -1, source.runs.epoch
            self.uids = [[] for _ in seen.nodes]
        behind, gangs = self._behind(seen), _Gangs(source)
        for row in behind[:ROWS]:
            self._write(source, row, seen.nodes[row], gangs)
            self._outdated.discard(seen.nodes[row].name)
            self._clock = max(self._clock, int(seen.versions[row]))
        return len(behind) <= ROWS

    def at(self, rows: rules.Array) -> "Roster":
        """Return a copy of these rows."""
        made = copy.copy(self)
        made.uids = [self.uids[row] for row in rows.tolist()]
        for name in _FIELDS:
            setattr(made, name, getattr(self, name)[rows])
        return made

    def joined(self, cell: tuple[int, int], request: view.Request, *, share: int, memory_mib: int) -> "Roster":
        """Return a copy with one more tenant on a GPU, the last of T; it is expected to end when whoever asks says."""
        made = copy.copy(self)
        for name in _FIELDS:
            setattr(made, name, np.pad(getattr(self, name), ((0, 0), (0, 0), (0, 1))))
        place = *cell, -1
        made.share[place], made.memory_mib[place], made.pods[place] = share, memory_mib, 1
        made.suspected[place] = bool(request.demand.suspect)
        made.tokens[place] = request.demand.share
        made.cpu_millis[place], made.memory_bytes[place] = request.host.cpu_millis, request.host.memory_bytes
        return made

    def _behind(self, seen: fleet.Fleet) -> list[int]:
        """Rows that were written since they were read, in that order, and then the others that are outdated."""
        self._outdated.intersection_update(seen.rows)
        written = np.flatnonzero(seen.versions > self._clock)
        by_version = written[np.argsort(seen.versions[written], kind="stable")].tolist()
        return [*by_version, *sorted({seen.rows[name] for name in self._outdated}.difference(by_version))]

    def _allocate(self, nodes: int, gpus: int, tenants: int) -> None:
        for name, kind in _FIELDS.items():
            setattr(self, name, np.zeros((nodes, gpus, tenants), dtype=kind))

    def _write(self, source: ledger.Ledger, row: int, node: view.Node, gangs: "_Gangs") -> None:
        self.uids[row] = [[tenant.uid for tenant in gpu.tenants] for gpu in node.gpus]
        values = [_described(source, tenant, gangs) for gpu in node.gpus for tenant in gpu.tenants]
        slots = [slot for slot, gpu in enumerate(node.gpus) for _ in gpu.tenants]
        places = [place for gpu in node.gpus for place in range(len(gpu.tenants))]
        for name, column in zip(_FIELDS, zip(*values, strict=True) if values else _NOBODY, strict=True):
            cells = getattr(self, name)[row]
            cells[:] = 0
            cells[slots, places] = column


def standing_of(source: ledger.Ledger, uid: PodUID) -> Standing:
    """Return how a pod that holds GPUs can be made to leave."""
    record, claim = source.pods.get(uid), source.claims.get(uid)
    if record is None or record.deleting or record.finished:
        return Standing.LEAVING
    if claim is None or not claim.bookings:
        return Standing.FIXED
    if claim.kind is claims.Kind.EARMARK:
        return Standing.EARMARKED
    return Standing.RUNNING if claim.kind is claims.Kind.BOUND else Standing.FIXED


def ready_at(source: ledger.Ledger, record: records.Pod) -> float:
    """Return from when a running pod may be evicted, in seconds since the epoch; inf: not known.

    What a pod asks for as its minimum counts up to the policy's `queue.maxMinimumRunSeconds`. A gang runs since the
    first of its pods was started, and for the longest minimum of them: a pod that replaces another protects nobody.
    """
    mates = _mates(source, record)
    least = max(0 if mate.request is None else mate.request.demand.minimum_run_seconds for mate in mates)
    if source.policy is not None:
        least = min(least, source.policy.spec.queue.max_minimum_run_seconds)
    started = min((mate.started for mate in mates if mate.started is not None), default=None)
    if started is None:
        return math.inf if least else 0.0
    return started + least


def together(source: ledger.Ledger, uid: PodUID) -> list[PodUID]:
    """Return the pods that must be evicted with a pod: itself, and those of its gang that hold GPUs.

    A mate that is leaving already need not be evicted, so it protects nobody while it does.
    """
    record = source.pods.get(uid)
    mates = [] if record is None else _staying(source, record)
    return mates if uid in mates else [*mates, uid]


def _staying(source: ledger.Ledger, record: records.Pod) -> list[PodUID]:
    """Return the pods of a pod's gang that hold GPUs and are not leaving."""
    mates = [mate.uid for mate in _mates(source, record) if mate.uid in source.claims]
    return [mate for mate in mates if standing_of(source, mate) is not Standing.LEAVING]


def _mates(source: ledger.Ledger, record: records.Pod) -> Collection[records.Pod]:
    """Return the pods of a pod's gang, if the policy lets gangs be as large; else the pod alone."""
    gang = _gang_of(source, record)
    return [record] if gang is None else source.index.gangs[gang].values()


def _gang_of(source: ledger.Ledger, record: records.Pod) -> pod.GangKey | None:
    """Return the gang with which a pod leaves; None: it is of none, or of one that is larger than gangs may be."""
    gang = record.gang
    if gang is None or source.policy is None:
        return None
    if source.index.gang_of(record) is None or gang.size > source.policy.spec.queue.max_gang_size:
        return None
    return gang


class _Gangs:
    """What holds for all pods of a gang, worked out once for all of its tenants: only while nothing changes."""

    def __init__(self, source: ledger.Ledger) -> None:
        self._source = source
        self._staying: dict[pod.GangKey, frozenset[PodUID]] = {}
        self._ready: dict[pod.GangKey, float] = {}

    def leaving_with(self, record: records.Pod) -> int:
        """Return how many pods are evicted with one that holds GPUs, itself among them: see `together`."""
        gang = _gang_of(self._source, record)
        if gang is None:
            return 1
        staying = self._staying.get(gang)
        if staying is None:
            staying = self._staying[gang] = frozenset(_staying(self._source, record))
        return len(staying) + (record.uid not in staying)

    def ready_at(self, record: records.Pod) -> float:
        """Return from when a pod may be evicted: see `ready_at`."""
        gang = _gang_of(self._source, record)
        if gang is None:
            return ready_at(self._source, record)
        if gang not in self._ready:
            self._ready[gang] = ready_at(self._source, record)
        return self._ready[gang]


def _begun(source: ledger.Ledger, uid: PodUID, last: records.Pod | None) -> float:
    """Since when a pod counts as running: one that kubelet has not taken up for long may not for as long again.

    What is reserved for a pod that cannot be marked may be so for ever.
    """
    if uid in source.earmarks.unmarked:
        return 0.0
    times = () if last is None else (last.started, last.scheduled)
    return next((time for time in times if time is not None), math.nan)


def _described(source: ledger.Ledger, tenant: view.Tenant, gangs: _Gangs) -> tuple[float, ...]:
    """Return the values of `_FIELDS`."""
    record, claim = source.pods.get(tenant.uid), source.claims[tenant.uid]
    last = record or source.graves.pods.get(tenant.uid)
    tenure = tenures.UNKNOWN if last is None else last.tenure
    return (
        0 if record is None else record.priority,
        standing_of(source, tenant.uid),
        tenant.share,
        tenant.memory_mib,
        bool(tenant.suspect),
        1 if record is None else gangs.leaving_with(record),
        0.0 if record is None else gangs.ready_at(record),
        0.0 if record is None or record.started is None else record.started,
        claim.share,
        claim.host.cpu_millis,
        claim.host.memory_bytes,
        _begun(source, tenant.uid, last),
        math.inf if tenure.deadline_seconds is None else tenure.deadline_seconds,
        tenure.leaves or 0.0,
        tenure.grace_seconds,
        tenure.endless,
        source.runs.number(None if last is None else last.likeness),
    )
