"""One pass over the queue: what can be placed is earmarked in the ledger and handed back to be written."""

import enum
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from cotenant_api import placement
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import earmarks, ledger, views
from cotenant_extender.packing import causes, placing, policies, rules, view
from cotenant_extender.queue import holds, order

MAX_FOREIGN_TEXT = 256
LIFTS_PER_PASS = 128
"""Filter and bind are answered between passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """A pod whose gate is to be lifted, or which is to be earmarked again where it has none."""

    record: records.Pod
    earmark: earmarks.Earmark


class Waiting(NamedTuple):
    """A pod that stays.

    Attributes:
        position: its place in the queue, from 1; 0 where it has none.
        told: reason and message, where the rules of packing need not be asked.
    """

    record: records.Pod
    position: int
    told: tuple[PackedReason, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a pass decided.

    Attributes:
        cut: more can be decided at once: the pass ended so that others get their turn meanwhile.
    """

    lifts: tuple[Lift, ...]
    waiting: tuple[Waiting, ...]
    cut: bool


class _Outcome(enum.Enum):
    """What became of an entry that was tried."""

    PLACED = enum.auto()
    REFUSED = enum.auto()


@dataclass
class _Pass:
    """State of one pass.

    Attributes:
        failed: requests that no GPU took; later ones like them are not tried: within a pass nothing becomes free.
    """

    source: ledger.Ledger
    policy: policies.InForce
    now: float
    failed: set[Hashable]
    lifts: list[Lift]
    waiting: list[Waiting]
    hold_kept: bool = False
    cut: bool = False


def plan(source: ledger.Ledger, policy: policies.InForce, *, now: float) -> Plan:
    """End the earmarks that have lost their ground, then place whom the order and the rules allow."""
    end_lost_earmarks(source, now=now)
    this = _Pass(source, policy, now, failed=set(), lifts=[], waiting=[])
    for entry in order.entries(source, policy.spec.queue, now=now):
        told = _obstacle(this, entry)
        if told is None and len(this.lifts) >= LIFTS_PER_PASS:
            told, this.cut = (PackedReason.WAITING_FOR_TURN, "others go first"), True
        if told is None:
            outcome = _place(this, entry)
            if outcome is _Outcome.PLACED:
                continue
            told = None if outcome is _Outcome.REFUSED else outcome
            _hold(this, entry)
        position = len(this.waiting) + 1
        this.waiting.extend(Waiting(record=record, position=position, told=told) for record in entry.members)
    if not this.hold_kept and not this.cut:
        source.set_hold(None)
    return Plan(lifts=tuple(this.lifts), waiting=(*this.waiting, *_invalid(source)), cut=this.cut)


def end_lost_earmarks(source: ledger.Ledger, *, now: float) -> None:
    """Earmarks end where their GPU or node has closed, and where kube-scheduler left them too long."""
    for uid in source.earmarks.overdue(now=now):
        source.end_earmark(uid, now=now)
    standing = list(source.earmarks.items())
    seen = source.seen()
    rows = {row for _, earmark in standing if (row := seen.rows.get(earmark.placed.node)) is not None}
    usable = {
        gpu.uuid
        for node in (seen.nodes[row] for row in rows)
        if node.closed is None and node.host.schedulable
        for gpu in node.gpus
        if gpu.closed is None
    }
    for uid, earmark in standing:
        if not all(gpu.uuid in usable for gpu in earmark.placed.gpus):
            source.end_earmark(uid)


def explain(source: ledger.Ledger, waiting: Waiting) -> tuple[PackedReason, str]:
    """Why a pod waits: reason and message, with its place in the queue."""
    request = waiting.record.request
    if waiting.told is not None or request is None:
        reason, message = waiting.told or (PackedReason.INVALID_REQUEST, waiting.record.invalid or "")
    else:
        with views.without(source, waiting.record.uid) as seen:
            rejected = rules.rejection(seen, request, check_host=True)
        reason, message = rejected.reason, rejected.message
    return reason, message if waiting.position < 1 else f"{message}; {ordinal(waiting.position)} in the queue"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def _obstacle(this: _Pass, entry: order.Entry) -> tuple[PackedReason, str] | None:
    """Why an entry is not even tried."""
    if not this.policy.places:
        return PackedReason.WAITING_FOR_TURN, this.policy.standstill
    if entry.gang is not None and not entry.complete:
        size, there = entry.gang
        return PackedReason.WAITING_FOR_GANG, f"{there} of the gang's {size} pods are here"
    record = entry.members[0]
    setback = this.source.earmarks.setback(record.uid)
    if setback is not None and setback.until > this.now:
        report = (record.unschedulable or "").partition(" ")[2][:MAX_FOREIGN_TEXT]
        return PackedReason.INSUFFICIENT_HOST_RESOURCES, f"kube-scheduler found no node: {report}"
    return None


def _place(this: _Pass, entry: order.Entry) -> _Outcome | tuple[PackedReason, str]:
    """Earmark all members or none; what they are told if none, where the rules do not say it all."""
    if entry.gang is None:
        return _place_one(this, entry.members[0])
    made: list[Lift] = []
    for record in entry.members:
        placed = _try(this, record)
        if placed is None:
            return _undo(this, entry, made, record)
        made.append(_earmark(this, record, placed))
    this.lifts.extend(made)
    return _Outcome.PLACED


def _place_one(this: _Pass, record: records.Pod) -> _Outcome:
    key = _fit_key(this, record)
    if key in this.failed:
        return _Outcome.REFUSED
    placed = _try(this, record)
    if placed is None:
        this.failed.add(key)
        return _Outcome.REFUSED
    this.lifts.append(_earmark(this, record, placed))
    return _Outcome.PLACED


def _undo(this: _Pass, entry: order.Entry, made: list[Lift], stuck: records.Pod) -> tuple[PackedReason, str]:
    """Take back what a gang was promised, having asked why it does not fit beside its own."""
    rejected = _rejection(this, stuck)
    for lift in made:
        this.source.end_earmark(lift.record.uid)
    message = f"{len(made)} of the gang's {len(entry.members)} waiting pods fit; for the next {rejected.message}"
    return rejected.reason, message


def _rejection(this: _Pass, record: records.Pod) -> causes.Rejection:
    with views.without(this.source, record.uid) as seen:
        # What stands in the way here is promised to the gang itself.
        return rules.rejection(seen, _request(record), check_host=True, tell_promises=False)


def _try(this: _Pass, record: records.Pod) -> placement.Placement | None:
    """A place for a pod; where kube-scheduler refused it last is tried last."""
    request, source = _request(record), this.source
    setback = source.earmarks.setback(record.uid)
    seen, found = source.seen(), None
    if setback is not None:
        others = seen.part([name for name in source.order if name != setback.node])
        found = placing.choose(others, request, source.known)
    if found is None:
        found = placing.choose(seen, request, source.known)
    return None if found is None else placing.document(found, request, this.policy, source.known)


def _earmark(this: _Pass, record: records.Pod, placed: placement.Placement) -> Lift:
    return Lift(record=record, earmark=this.source.earmark(record.uid, placed, now=this.now))


def _hold(this: _Pass, entry: order.Entry) -> None:
    """The first that has waited too long and does not fit gets GPUs held."""
    if this.hold_kept or not entry.aged:
        return
    holds.keep(this.source, [_request(record) for record in entry.members])
    this.hold_kept = this.source.hold is not None


def _fit_key(this: _Pass, record: records.Pod) -> Hashable:
    label = this.policy.spec.tenancy_label
    return _request(record).fit_key, None if label is None else record.labels.get(label)


def _request(record: records.Pod) -> view.Request:
    if record.request is None:
        raise ValueError(f"pod {record.namespace}/{record.name} has no request that can be placed")
    return record.request


def _invalid(source: ledger.Ledger) -> list[Waiting]:
    return [
        Waiting(record=record, position=0, told=(PackedReason.INVALID_REQUEST, record.invalid))
        for record in source.index.pending.values()
        if record.invalid is not None
    ]
