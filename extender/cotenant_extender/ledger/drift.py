"""The ledger checked against itself: every sum recomputed from what the events said. The difference must be none."""

from collections import defaultdict
from dataclasses import dataclass, field

from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import claims, ledger


@dataclass
class _Sums:
    """What claims on one node add up to."""

    share: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0
    pods: int = 0
    tenants: dict[GPUUID, dict[PodUID, claims.Claim]] = field(default_factory=dict)
    unreadable: set[PodUID] = field(default_factory=set)


def recomputed(source: ledger.Ledger) -> dict[NodeName, _Sums]:
    """The sums of every node that has claims, from pods, Bindings in flight and earmarks alone."""
    sums: defaultdict[NodeName, _Sums] = defaultdict(_Sums)
    for record in (*source.pods.values(), *source.graves.pods.values()):
        claim = _claim(source, record)
        if claim is None:
            continue
        here = sums[claim.node]
        here.share += claim.share
        here.cpu_millis += claim.host.cpu_millis
        here.memory_bytes += claim.host.memory_bytes
        here.pods += 1
        for booking in claim.bookings:
            here.tenants.setdefault(booking.uuid, {})[claim.uid] = claim
        if claim.kind is claims.Kind.UNREADABLE:
            here.unreadable.add(claim.uid)
    return dict(sums)


def differences(source: ledger.Ledger) -> list[str]:
    """Where the ledger differs from what it should be; a line each."""
    expected = recomputed(source)
    found = []
    for name in sorted({*expected, *source.nodes}):
        want, state = expected.get(name, _Sums()), source.nodes.get(name)
        have = (
            _Sums()
            if state is None
            else _Sums(state.share, state.cpu_millis, state.memory_bytes, state.pods, state.tenants, state.unreadable)
        )
        if want != have:
            found.append(f"node {name}: counted {have}, should be {want}")
    offered = sorted(name for name, state in source.nodes.items() if state.agent is not None)
    if offered != source.order:
        found.append(f"order of nodes: {source.order}, should be {offered}")
    return found


def _claim(source: ledger.Ledger, record: records.Pod) -> claims.Claim | None:
    standing = source.earmarks.get(record.uid)
    return claims.claim(
        record,
        reserved=source.reserved.get(record.uid),
        earmarked=None if standing is None else standing.placed,
    )
