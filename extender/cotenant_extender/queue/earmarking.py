"""Earmark what fits: a pod, or all pods of a gang or none."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from cotenant_api import placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import earmarks, ledger
from cotenant_extender.packing import fleet, placing, policies, rules, view
from cotenant_extender.queue import order, scene, seating

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


def wanted(lift: Lift) -> str | None:
    """Return the earmark annotation that a pod has when it is lifted."""
    return lift.record.earmark if lift.earmark is None else lift.earmark.note().to_json()


def earmarked(
    source: ledger.Ledger, policy: policies.InForce, entry: order.Entry, rows: rules.Array | None, *, now: float
) -> list[Lift]:
    """Promise GPUs to a single pod; empty where it does not fit.

    `rows`: where it may fit at all.
    """
    return _promised(source, policy, entry, functools.partial(_place, rows=rows), now=now)


def seated(
    source: ledger.Ledger,
    policy: policies.InForce,
    entry: order.Entry,
    found: Sequence[seating.Seat],
    *,
    now: float,
) -> list[Lift]:
    """Promise a gang the GPUs that were `found` for its pods (see `seats`) in the ledger as it is."""
    places = {record.uid: seat for record, seat in zip(entry.members, found, strict=True)}
    return _promised(source, policy, entry, functools.partial(_place_member, seated=places), now=now)


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


class AsOf(NamedTuple):
    """What was looked at for a job, and in which state of the ledger.

    Of the ledger's version alone less may fit than did: it grows only when something may newly fit. The fleet's clock
    grows with every row that is written, and its rows are another mapping where they stand elsewhere.
    """

    version: int
    clock: int
    members: tuple[records.Pod, ...]
    rows: Mapping[NodeName, int]

    @classmethod
    def now(cls, source: ledger.Ledger, entry: order.Entry) -> Self:
        """Return what there is to look at."""
        seen = source.seen()
        return cls(source.version, seen.clock, tuple(entry.members), seen.rows)

    def same(self, other: "AsOf | None") -> bool:
        """Return whether nothing has changed."""
        return other is not None and self[:3] == other[:3] and self.rows is other.rows


class Seats:
    """Where gangs fit; what was found last is known as long as nothing changes.

    Attributes:
        name: which gang did last; None: none has yet.
    """

    def __init__(self) -> None:
        self.name: order.Name | None = None
        self._as_of: AsOf | None = None
        self._found: list[seating.Seat] | None = None

    def find(self, source: ledger.Ledger, entry: order.Entry) -> list[seating.Seat] | None:
        """Where all pods of a gang fit beside each other; None: nowhere."""
        as_of = AsOf.now(source, entry)
        if not as_of.same(self._as_of):
            self._as_of, self._found = as_of, seats(source, entry)
            if self._found is not None:
                self.name = entry.name
        return self._found


def seats(source: ledger.Ledger, entry: order.Entry) -> list[seating.Seat] | None:
    """Where all pods of a gang fit beside each other; None: nowhere. Nothing is promised for that.

    Where kube-scheduler refused one last is tried last.
    """
    setbacks = [source.earmarks.setback(record.uid) for record in entry.members]
    avoided = [None if setback is None else setback.node for setback in setbacks]
    return seating.seats(scene.Scene(source, source.seen()), entry.requests, source.known, avoided=avoided)


def _place(
    source: ledger.Ledger, policy: policies.InForce, record: records.Pod, *, rows: rules.Array | None
) -> placement.Placement | None:
    """Return a place for a single pod; where kube-scheduler refused it last is tried last."""
    request, seen = order.request_of(record), source.seen()
    setback = source.earmarks.setback(record.uid)
    if setback is None:
        found = placing.choose(seen if rows is None else _part(seen, rows), request, source.known)
    else:
        found = _elsewhere(source, request, setback) or placing.choose(seen, request, source.known)
    return None if found is None else placing.document(found, request, policy, source.known)


def _place_member(
    source: ledger.Ledger,
    policy: policies.InForce,
    record: records.Pod,
    *,
    seated: Mapping[PodUID, seating.Seat],
) -> placement.Placement | None:
    """Return the place of a pod of a gang."""
    request = order.request_of(record)
    found = placing.chosen(source.seen(), request, *seated[record.uid])
    return None if found is None else placing.document(found, request, policy, source.known)


def _elsewhere(source: ledger.Ledger, request: view.Request, setback: earmarks.Setback) -> placing.Choice | None:
    """Return a place on any other node than where kube-scheduler refused the pod."""
    others = source.seen().part([name for name in source.order if name != setback.node])
    return placing.choose(others, request, source.known)


def _part(seen: fleet.Fleet, rows: rules.Array) -> fleet.Fleet:
    return seen.at(rows) if 4 * len(rows) < len(seen) else seen


class Lost:
    """Ends earmarks whose GPU or node has closed; nodes are looked at that were written since it last looked."""

    def __init__(self) -> None:
        self._rows: Mapping[NodeName, int] | None = None
        self._clock = 0

    def end(self, source: ledger.Ledger) -> None:
        """End them."""
        seen = source.seen()
        since = self._clock if self._rows is seen.rows else -1
        rows = _written(seen, since)
        usable: dict[NodeName, frozenset[GPUUID]] = {}
        for uid, earmark in source.earmarks.items():
            name = earmark.placed.node
            if name in rows and name not in usable:
                usable[name] = _usable(seen.nodes[rows[name]])
            looked_at = name in rows or name not in seen.rows
            if looked_at and not all(gpu.uuid in usable.get(name, ()) for gpu in earmark.placed.gpus):
                source.end_earmark(uid)
        self._rows, self._clock = seen.rows, seen.clock


def end_left_alone(source: ledger.Ledger, *, now: float) -> None:
    """End earmarks of pods that kube-scheduler leaves alone."""
    for uid in source.earmarks.left_alone(now=now):
        source.leave(uid)


def _written(seen: fleet.Fleet, since: int) -> dict[NodeName, int]:
    """Return the rows that were written since the clock stood so."""
    return {seen.nodes[row].name: row for row in np.flatnonzero(seen.versions > since).tolist()}


def _usable(node: view.Node) -> frozenset[GPUUID]:
    if node.closed is not None or not node.host.schedulable:
        return frozenset()
    return frozenset(gpu.uuid for gpu in node.gpus if gpu.closed is None)
