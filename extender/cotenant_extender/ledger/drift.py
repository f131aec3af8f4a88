"""The ledger checked against itself: every sum recomputed from what the events said. The difference must be none.

A recount goes step by step, so that it can run beside everything else; nodes that change meanwhile are left to the
next.
"""

from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field, fields

import numpy as np

from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import claims, ledger
from cotenant_extender.packing import fleet, view

PODS_PER_STEP = 200
NODES_PER_STEP = 2
"""A step takes about two milliseconds: filter waits for it."""


@dataclass
class _Sums:
    """What claims on one node add up to."""

    share: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0
    pods: int = 0
    lasting: view.Lasting = view.NONE_LASTING
    tenants: dict[GPUUID, dict[PodUID, claims.Claim]] = field(default_factory=dict)
    unreadable: set[PodUID] = field(default_factory=set)


def differences(source: ledger.Ledger) -> list[str]:
    """Where the ledger differs from what it should be; a line each."""
    steps = recount(source)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[str] = end.value
            return found


def recount(source: ledger.Ledger) -> Generator[None, None, list[str]]:
    """As `differences`, in steps between which the ledger may change."""
    changes = {name: state.changes for name, state in source.nodes.items()}
    sums: defaultdict[NodeName, _Sums] = defaultdict(_Sums)
    for count, record in enumerate((*source.pods.values(), *source.graves.pods.values()), start=1):
        _add(sums, source, record)
        if count % PODS_PER_STEP == 0:
            yield
    found = []
    for count, name in enumerate(sorted({*sums, *source.nodes}), start=1):
        state = source.nodes.get(name)
        if (None if state is None else state.changes) == changes.get(name):
            found.extend(_compared(source, name, sums.get(name, _Sums())))
        if count % NODES_PER_STEP == 0:
            yield
    offered = sorted(name for name, state in source.nodes.items() if state.agent is not None)
    if offered != source.order:
        found.append(f"order of nodes: {source.order}, should be {offered}")
    return found


def _add(sums: defaultdict[NodeName, _Sums], source: ledger.Ledger, record: records.Pod) -> None:
    claim = source.claim_of(record)
    if claim is None:
        return
    here = sums[claim.node]
    here.share += claim.share
    here.cpu_millis += claim.host.cpu_millis
    here.memory_bytes += claim.host.memory_bytes
    here.pods += 1
    here.lasting = here.lasting.plus(claim.host, 1) if claim.lasts else here.lasting
    for booking in claim.bookings:
        here.tenants.setdefault(booking.uuid, {})[claim.uid] = claim
    if claim.kind is claims.Kind.UNREADABLE:
        here.unreadable.add(claim.uid)


def _compared(source: ledger.Ledger, name: NodeName, want: _Sums) -> list[str]:
    state = source.nodes.get(name)
    have = _Sums() if state is None else _Sums(**{one.name: getattr(state, one.name) for one in fields(_Sums)})
    found = [] if want == have else [f"node {name}: counted {have}, should be {want}"]
    if state is not None and state.agent is not None and source.policy is not None:
        found.extend(_compared_rows(source.seen(), state.seen_anew(source.policy, source.finished)))
    return found


def _compared_rows(seen: fleet.Fleet, node: view.Node) -> list[str]:
    """Return whether the arrays say of a node what it says of itself."""
    row, fresh = seen.rows[node.name], fleet.Fleet.of((node,), seen.policy)
    columns = len(node.gpus)
    same = seen.nodes[row] == node and all(
        np.array_equal(getattr(seen, field)[row], getattr(fresh, field)[0]) for field in ("free_share", "node_closed")
    )
    for name in ("present", "closed", "free", "free_mib", "tenants", "tenants_left", "suspects"):
        have, want = getattr(seen, name)[row], getattr(fresh, name)[0, :columns]
        same = same and np.array_equal(have[:columns], want) and not (seen.present[row, columns:]).any()
    return [] if same else [f"node {node.name}: packing sees {seen.nodes[row]}, should see {node}"]
