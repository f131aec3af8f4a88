"""The roster: who is on which GPU with what priority, as arrays, and who could be made to leave.

A row is read again when it was written, and when an event came of one of its tenants or of a pod of its gang: whether a
pod leaves, and since when it runs, changes no booking, and so writes no row.

A tenant that is leaving (it is being deleted, or gone but not yet ended on its node) is waited for. An earmark can be
taken back. A running pod can be evicted from when it has run for its `minimum-run-seconds`. What is being bound stays.
"""

import enum
import math
from collections import Counter
from collections.abc import Collection

import numpy as np

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import claims, index, ledger
from cotenant_extender.packing import fleet, rules, view

_FIELDS = {
    "priority": np.int64,
    "standing": np.uint8,
    "share": np.int64,
    "memory_mib": np.int64,
    "pods": np.int64,
    "ready": np.float64,
    "started": np.float64,
    "tokens": np.int64,
    "cpu_millis": np.int64,
    "memory_bytes": np.int64,
}


_NOBODY: list[tuple[float, ...]] = [()] * len(_FIELDS)
ROWS = 100
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
        pods: shape (N, G, T), how many pods leave with it: a gang goes as a whole.
        ready: shape (N, G, T), from when it may be evicted, in seconds since the epoch; inf: not known.
        started: shape (N, G, T), since when it runs, in seconds since the epoch.
        tokens, cpu_millis, memory_bytes: shape (N, G, T), what it requests of its node.
        uids: by node row and GPU, the tenants in the order of T.
    """

    priority: rules.Array
    standing: rules.Array
    share: rules.Array
    memory_mib: rules.Array
    pods: rules.Array
    ready: rules.Array
    started: rules.Array
    tokens: rules.Array
    cpu_millis: rules.Array
    memory_bytes: rules.Array

    def __init__(self) -> None:
        self.uids: list[list[list[PodUID]]] = []
        self._rows: dict[NodeName, int] | None = None
        self._clock = -1
        self._priorities: dict[PodUID, int] = {}
        self._counts: Counter[int] = Counter()
        self._gangs: dict[PodUID, index.GangKey] = {}
        self._outdated: set[NodeName] = set()
        self._allocate(0, 0, 0)

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
        """The priorities of those that hold GPUs, lowest first, strictly below one."""
        return sorted(priority for priority in self._counts if priority < below)

    def update(self, source: ledger.Ledger, seen: fleet.Fleet) -> bool:
        """Read rows that may differ from what was read, at most `ROWS`; whether that was all of them."""
        most = max(int(seen.tenants.max(initial=0)), 1)
        if self._rows is not seen.rows or self.share.shape[1] != seen.present.shape[1] or self.share.shape[2] < most:
            nodes, gpus = seen.present.shape
            self._allocate(nodes, gpus, most)
            self._rows, self._clock = seen.rows, -1
            self.uids = [[] for _ in seen.nodes]
        behind = self._behind(seen)
        for row in behind[:ROWS]:
            self._write(source, row, seen.nodes[row])
            self._outdated.discard(seen.nodes[row].name)
            self._clock = max(self._clock, int(seen.versions[row]))
        return len(behind) <= ROWS

    def _behind(self, seen: fleet.Fleet) -> list[int]:
        """Rows that were written since they were read, in that order, and then the others that are outdated."""
        self._outdated.intersection_update(seen.rows)
        written = np.flatnonzero(seen.versions > self._clock)
        by_version = written[np.argsort(seen.versions[written], kind="stable")].tolist()
        return [*by_version, *sorted({seen.rows[name] for name in self._outdated}.difference(by_version))]

    def _allocate(self, nodes: int, gpus: int, tenants: int) -> None:
        for name, kind in _FIELDS.items():
            setattr(self, name, np.zeros((nodes, gpus, tenants), dtype=kind))

    def _write(self, source: ledger.Ledger, row: int, node: view.Node) -> None:
        self.uids[row] = [[tenant.uid for tenant in gpu.tenants] for gpu in node.gpus]
        values = [_described(source, tenant) for gpu in node.gpus for tenant in gpu.tenants]
        slots = [slot for slot, gpu in enumerate(node.gpus) for _ in gpu.tenants]
        places = [place for gpu in node.gpus for place in range(len(gpu.tenants))]
        for name, column in zip(_FIELDS, zip(*values, strict=True) if values else _NOBODY, strict=True):
            cells = getattr(self, name)[row]
            cells[:] = 0
            cells[slots, places] = column


def standing_of(source: ledger.Ledger, uid: PodUID) -> Standing:
    """How a pod that holds GPUs can be made to leave."""
    record, claim = source.pods.get(uid), source.claims.get(uid)
    if record is None or record.deleting or record.finished:
        return Standing.LEAVING
    if claim is None or not claim.bookings:
        return Standing.FIXED
    if claim.kind is claims.Kind.EARMARK:
        return Standing.EARMARKED
    return Standing.RUNNING if claim.kind is claims.Kind.BOUND else Standing.FIXED


def ready_at(record: records.Pod) -> float:
    """From when a running pod may be evicted, in seconds since the epoch; inf: not known."""
    least = 0 if record.request is None else record.request.demand.minimum_run_seconds
    if record.started is None:
        return math.inf if least else 0.0
    return record.started + least


def together(source: ledger.Ledger, uid: PodUID) -> list[PodUID]:
    """Who leaves with a pod: itself, and those of its gang that hold GPUs."""
    record = source.pods.get(uid)
    if record is None or record.gang is None:
        return [uid]
    members = source.index.gangs.get(record.gang, {})
    return [member for member in members if member in source.claims] or [uid]


def _described(source: ledger.Ledger, tenant: view.Tenant) -> tuple[float, ...]:
    """The values of `_FIELDS`."""
    record, claim = source.pods.get(tenant.uid), source.claims[tenant.uid]
    mates = together(source, tenant.uid)
    known = [mate for uid in mates if (mate := source.pods.get(uid)) is not None]
    return (
        max((mate.priority for mate in known), default=0),
        standing_of(source, tenant.uid),
        tenant.share,
        tenant.memory_mib,
        len(mates),
        max((ready_at(mate) for mate in known), default=0.0),
        0.0 if record is None or record.started is None else record.started,
        claim.share,
        claim.host.cpu_millis,
        claim.host.memory_bytes,
    )
