"""Earmark what fits: a pod, or all pods of a gang or none."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from cotenant_api import placement
from cotenant_extender import records
from cotenant_extender.ledger import earmarks, ledger
from cotenant_extender.packing import fleet, placing, policies, rules
from cotenant_extender.queue import order, scene

_Places = Callable[[ledger.Ledger, policies.InForce, records.Pod], placement.Placement | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """A pod whose gate is to be lifted, or which is to be earmarked again where it has none.

    Attributes:
        earmark: what it is promised; None: nothing, it is lifted for the autoscaler or for kube-scheduler to see.
        asks: whether it is lifted so that kube-scheduler says which nodes it accepts.
    """

    record: records.Pod
    earmark: earmarks.Earmark | None
    asks: bool = False

    @property
    def kind(self) -> str:
        """What the metrics call it."""
        if self.earmark is None:
            return "question" if self.asks else "scale-up"
        return "gate" if self.record.gates else "earmark"


def earmarked(
    source: ledger.Ledger, policy: policies.InForce, entry: order.Entry, rows: rules.Array | None, *, now: float
) -> list[Lift]:
    """Promise GPUs to an entry; empty where it does not fit. `rows`: where a single pod may fit at all."""
    if entry.gang is None:
        return _promised(source, policy, entry, functools.partial(_place, rows=rows, avoids=True), now=now)
    if not _fits_together(source, entry):
        return []
    # A pod that avoids the node where it was refused may take the only place of another.
    for avoids in (True, False):
        made = _promised(source, policy, entry, functools.partial(_place, rows=None, avoids=avoids), now=now)
        if made:
            return made
    return []


def _promised(
    source: ledger.Ledger, policy: policies.InForce, entry: order.Entry, place: _Places, *, now: float
) -> list[Lift]:
    """Promise GPUs to all pods of an entry, one after the other, or to none."""
    made: list[Lift] = []
    for record in entry.members:
        placed = place(source, policy, record)
        if placed is None:
            for lift in made:
                source.end_earmark(lift.record.uid)
            return []
        made.append(Lift(record=record, earmark=source.earmark(record.uid, placed, now=now)))
    return made


def guest(
    source: ledger.Ledger, policy: policies.InForce, record: records.Pod, opened: fleet.Fleet, *, now: float
) -> Lift | None:
    """Promise a single pod GPUs of nodes of which some are open to it alone; None where it does not fit."""
    request = order.request_of(record)
    found = placing.choose(opened, request, source.known)
    if found is None:
        return None
    placed = placing.document(found, request, policy, source.known)
    return Lift(record=record, earmark=source.earmark(record.uid, placed, now=now))


def _fits_together(source: ledger.Ledger, entry: order.Entry) -> bool:
    """Whether all pods of a gang fit beside each other; nothing is promised for that."""
    play = scene.Scene(source, source.seen())
    return all(play.place(request, source.known) is not None for request in entry.requests)


def _place(
    source: ledger.Ledger, policy: policies.InForce, record: records.Pod, *, rows: rules.Array | None, avoids: bool
) -> placement.Placement | None:
    """A place for a pod; `avoids`: where kube-scheduler refused it last is tried last."""
    request, seen = order.request_of(record), source.seen()
    setback, found = source.earmarks.setback(record.uid) if avoids else None, None
    if setback is not None:
        others = seen.part([name for name in source.order if name != setback.node])
        found = placing.choose(others, request, source.known)
    elif rows is not None:
        seen = _part(seen, rows)
    if found is None:
        found = placing.choose(seen, request, source.known)
    return None if found is None else placing.document(found, request, policy, source.known)


def _part(seen: fleet.Fleet, rows: rules.Array) -> fleet.Fleet:
    return seen.at(rows) if 4 * len(rows) < len(seen) else seen
