"""What a hold refuses to others: the GPUs that are held, and what the job needs beside them.

A job that is not let in may go to another GPU of such a node only if the node has enough free now for it and for the
job that waits longer. Where the policy bounds on how many GPUs a namespace may be, held GPUs count for the namespace of
their job: a newer job of the same namespace may go only where both stay within the bound. As long as that is true of
all who are let in, what becomes free for the job that waits longer stays free.
"""

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotenant_api.names import NodeName
from cotenant_extender.packing import spaces, view

if TYPE_CHECKING:
    from cotenant_extender.packing import fleet

Array = NDArray[Any]


class Further(enum.IntEnum):
    """To which GPUs a pod may go beside what is held for jobs of its namespace that wait longer."""

    ANY = 0
    OWN = 1
    """Those on which its namespace is."""
    NONE = 2


def write(seen: "fleet.Fleet", cell: tuple[int, int], hold: view.Hold | None) -> bool:
    """Note for whom a GPU is held; whether it counts no longer for a namespace for which it counted before."""
    before = int(seen.hold[cell])
    seen.hold[cell] = now = 0 if hold is None else _code(seen, hold)
    return before not in (0, now) and seen.policy.spec.max_gpus_per_namespace is not None


def keep(seen: "fleet.Fleet", name: NodeName, kept: Sequence[view.Kept]) -> None:
    """Note what is kept of a node."""
    if kept or name in seen.kept:
        others = {other: amounts for other, amounts in seen.kept.items() if other != name}
        seen.kept = others | ({name: tuple((_code(seen, one.hold), one) for one in kept)} if kept else {})


def _code(seen: "fleet.Fleet", hold: view.Hold) -> int:
    return seen.holds.setdefault(hold, len(seen.holds) + 1)


def may_use(hold: view.Hold, request: view.Request) -> bool:
    """Return whether it may: the holder, a higher priority, and a job of its priority that has waited longer do."""
    if request.demand.uid in hold.holders or request.priority > hold.priority:
        return True
    return request.priority == hold.priority and request.since < hold.since


def closed(source: "fleet.Fleet", request: view.Request) -> Array | None:
    """Return which codes of holds, of those that any GPU has, refuse a pod; None: no GPU is held."""
    if not source.holds or not source.hold.any():
        return None
    standing = (np.bincount(source.hold.ravel(), minlength=len(source.holds) + 1) > 0).tolist()
    refuse = [held and not may_use(hold, request) for hold, held in zip(source.holds, standing[1:], strict=True)]
    return np.array([False, *refuse], dtype=np.bool_)


def short(source: "fleet.Fleet", request: view.Request) -> Array | None:
    """Return which nodes, shape (N,), have too little CPU, memory or pods for a pod and for jobs that wait longer.

    None: none has.
    """
    both = source.rows.keys() & source.kept.keys()
    found = [
        (source.rows[name], code, kept.cpu_millis, kept.memory_bytes, kept.pods)
        for name in both
        for code, kept in _before(source.kept[name], request)
    ]
    if not found:
        return None
    table = np.array(found, dtype=np.int64)
    table = table[(source.hold[table[:, 0]] == table[:, 1:2]).any(axis=1)]
    rows, need = table[:, 0], request.host
    kept = table[:, 2:]
    if len(set(rows.tolist())) < len(rows):
        kept = np.array([kept[rows == row].sum(axis=0) for row in rows])
    free = np.array((source.free_cpu_millis[rows], source.free_memory_bytes[rows], source.free_pods[rows])).T
    needed = np.array((need.cpu_millis, need.memory_bytes, 1))
    lacks = np.zeros(len(source), dtype=np.bool_)
    lacks[rows[((kept > 0) & (needed > 0) & (free - needed < kept)).any(axis=1)]] = True
    return lacks


def _before(by_code: tuple[tuple[int, view.Kept], ...], request: view.Request) -> list[tuple[int, view.Kept]]:
    """Return what is kept from a pod.

    Of what is kept for its priority only what was kept before anything was for it.
    """
    found: list[tuple[int, view.Kept]] = []
    own = False
    for code, kept in by_code:
        own |= request.demand.uid in kept.hold.holders
        if not may_use(kept.hold, request) and not (own and kept.hold.priority <= request.priority):
            found.append((code, kept))
    return found


def further(source: "fleet.Fleet", request: view.Request) -> Further:
    """Return to which GPUs a pod may go, if what is held for older jobs of its namespace counts as well."""
    most = source.policy.spec.max_gpus_per_namespace
    if most is None or source.admits is None or not source.holds:
        return Further.ANY
    namespace, root = request.demand.namespace, source
    while root.cut is not None:
        root = root.cut[0]
    refuse = closed(root, request)
    if refuse is None:
        return Further.ANY
    mine = refuse & [False, *(hold.namespace == namespace for hold in source.holds)]
    if not mine.any():
        return Further.ANY
    used = spaces.count(source, lambda one: spaces.held(one, namespace) | mine[one.hold])
    if used > most:
        return Further.NONE
    return Further.OWN if used + request.demand.gpus > most else Further.ANY


def beyond(source: "fleet.Fleet", request: view.Request) -> Array | None:
    """Return which GPUs, shape (N, G), a pod may not use for the sake of older jobs of its namespace; None: any."""
    may = further(source, request)
    if may is Further.ANY:
        return None
    refused = np.ones(source.present.shape, dtype=np.bool_)
    if may is Further.OWN:
        refused &= ~spaces.held(source, request.demand.namespace)
    refused[[row for name in source.admits or () if (row := source.rows.get(name)) is not None]] = False
    return refused
