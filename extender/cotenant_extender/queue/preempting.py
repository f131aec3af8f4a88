"""Preemptions under way: for whom GPUs are held while victims leave, and whom not to ask again for a while.

GPUs are held until the job is bound or gone, until it got other GPUs, until one of them has been closed for a while,
until a victim may not be evicted, or until a victim is stuck. Then it is decided anew, on what is the case then. A pod
that may not be evicted is asked again after a while (see `budgets`), with all others of its PodDisruptionBudget; it is
never deleted instead.

A victim has the grace period that its pod states: it is stuck `GONE_SECONDS` after its deletion timestamp, which
includes that period. One that has no deletion timestamp is stuck `GONE_SECONDS` after its eviction was decided.
"""

import enum
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import view
from cotenant_extender.queue import budgets, line, order, preemption, roster, sparing, vain

GONE_SECONDS = 300.0
"""Ample for kubelet and node agent, and for a clock that differs from the API server's."""
GRACE_LIMIT_SECONDS = 24 * 3600.0
"""A pod's own grace period is waited for no longer: an author may write any."""
KEPT_SECONDS = 10.0
"""GPUs are kept for so long for a job whose victims have all gone and that does not fit: statuses may follow.

As long, all in all, for one whose GPU closes when a victim leaves: the last of its processes may outlive its pod.
"""
STUCK_SECONDS = 1800.0
"""How long a victim that is stuck is not counted on."""
LIMIT = 64
"""Jobs of a priority, or a higher one, that may wait for victims at a time."""
ROOM = LIMIT // 8
"""Of a namespace so many may in any case, however long those of another wait for pods that are leaving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Pods to evict for a job.

    Attributes:
        preemptor: the job's first pod.
    """

    preemptor: records.Pod
    victims: tuple[records.Pod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Live:
    """GPUs held while victims leave.

    Attributes:
        begun: when it was decided, in seconds since the epoch.
        again: from when on others are looked for who would be gone sooner, in seconds since the epoch; inf: never, as
            some are evicted for it.
        beside: who was on the nodes.
    """

    hold: view.Hold
    victims: frozenset[PodUID]
    begun: float
    again: float
    beside: frozenset[PodUID]


class _Ground(enum.Enum):
    """What is held for a job: all of it is open, some of it is closed, or it serves nobody any more."""

    OPEN = enum.auto()
    CLOSED = enum.auto()
    LOST = enum.auto()


@dataclass(frozen=True, slots=True)
class _Stay:
    """A pod that is not to be asked."""

    count: int
    until: float


class Preemptions:
    """What goes on; a new leader begins with none, and waits for those that are leaving.

    Attributes:
        sparing: for which jobs nobody is evicted, as that was in vain.
    """

    def __init__(self) -> None:
        self._live: dict[order.Name, _Live] = {}
        self._staying: dict[PodUID, _Stay] = {}
        self._budgets = budgets.Budgets()
        self._freed: dict[order.Name, float] = {}
        self._closed: dict[order.Name, float] = {}
        self._shut: set[order.Name] = set()
        self.sparing = sparing.Sparing()

    def __contains__(self, name: order.Name) -> bool:
        return name in self._live

    def crowded(self) -> float:
        """Return up to which priority no job may begin, as `LIMIT` of it or a higher one wait for victims; -inf: none.

        Who merely waits for pods that are leaving already may wait long: a job of a higher priority does not.
        """
        priorities = sorted((live.hold.priority for live in self._live.values()), reverse=True)
        return priorities[LIMIT - 1] if len(priorities) >= LIMIT else -math.inf

    def admits(self, entries: Sequence[order.Entry]) -> Sequence[order.Entry]:
        """Return those of these jobs that may begin; see `crowded` and `ROOM`."""
        least = self.crowded()
        if least == -math.inf:
            return entries
        begun = Counter(live.hold.namespace for live in self._live.values())
        return [one for one in entries if one.priority > least or begun[one.members[0].namespace] < ROOM]

    def staying(self, source: ledger.Ledger, *, now: float) -> set[PodUID]:
        """Pods that are not to be asked to leave now."""
        return {uid for uid, stay in self._staying.items() if stay.until > now}.union(
            self._budgets.covered(source, now=now)
        )

    def guarded(self, source: ledger.Ledger, entry: order.Entry) -> list[budgets.Key]:
        """Return the PodDisruptionBudgets that keep pods of lower priority than a job's, as far as is known."""
        return self._budgets.against(source, entry.priority) if all(member.preempts for member in entry.members) else []

    def victims(self, source: ledger.Ledger, name: order.Name) -> list[records.Pod]:
        """Whom a job still waits for, as they were last seen."""
        live = self._live.get(name)
        left = () if live is None else sorted(uid for uid in live.victims if uid in source.claims)
        known = (source.pods.get(uid) or source.graves.pods.get(uid) for uid in left)
        return [record for record in known if record is not None]

    def stands(self, eviction: Eviction, victim: records.Pod) -> bool:
        """Return whether a job still waits for a victim to leave, as was decided."""
        uid = eviction.preemptor.uid
        waiting = (live for name, live in self._live.items() if uid in live.hold.holders and name not in self._shut)
        return any(victim.uid in live.victims for live in waiting)

    def without_victims(self, source: ledger.Ledger, *, now: float) -> list[order.Name]:
        """Jobs whose victims have all gone, and a while ago."""
        freed = [
            name
            for name, live in self._live.items()
            if name not in self._shut and not any(uid in source.claims for uid in live.victims)
        ]
        return [name for name in freed if now >= self._freed.setdefault(name, now) + KEPT_SECONDS]

    def gone(self, source: ledger.Ledger, entry: order.Entry, offers: Callable[[], vain.Offers], *, now: float) -> None:
        """All victims of a job have gone, and it does not fit: pods without a share have the CPU, for example.

        They left in vain unless pods of higher priority took their places. `offers`: what nodes have for its kind.
        """
        live, held = self._live[entry.name], source.holds.get(self._live[entry.name].hold, {})
        outranked = any(
            uid not in live.beside and uid in source.pods and source.pods[uid].priority > entry.priority
            for uid in _tenants(source, held)
        )
        self.end(source, entry.name)
        if live.again == math.inf and not outranked:
            setbacks = (source.earmarks.setback(member.uid) for member in entry.members)
            failed = any(setback is not None and setback.until > live.begun for setback in setbacks)
            self.sparing.in_vain(entry, None if failed else offers(), now=now)

    def settled(self, name: order.Name, *, now: float) -> bool:
        """Return whether a job waits for victims, and no others are to be looked for."""
        live = self._live.get(name)
        return live is not None and now < live.again

    def wait_on(self, name: order.Name, *, now: float) -> None:
        """Let a job wait for its victims: nobody would be gone sooner as things are."""
        self._live[name] = replace(self._live[name], again=now + preemption.SOON_SECONDS)

    def begin(
        self, source: ledger.Ledger, entry: order.Entry, choice: preemption.Choice, *, now: float
    ) -> Eviction | None:
        """Hold the GPUs, take back the earmarks, and say whom to evict."""
        for uid in choice.revoke:
            source.end_earmark(uid)
        if entry.name in self._live:
            self.end(source, entry.name)
        evicted = frozenset(record.uid for record in choice.evict)
        again = math.inf if evicted else now + preemption.SOON_SECONDS
        hold = view.Hold(
            holders=frozenset(member.uid for member in entry.members),
            priority=entry.priority,
            since=-math.inf,
            namespace=entry.members[0].namespace,
        )
        source.set_hold(hold, choice.gpus, choice.needs)
        beside = _tenants(source, choice.gpus)
        self._live[entry.name] = _Live(
            hold=hold, victims=evicted | choice.awaited, begun=now, again=again, beside=beside
        )
        return Eviction(preemptor=entry.members[0], victims=choice.evict) if choice.evict else None

    def refused(
        self, source: ledger.Ledger, victim: records.Pod, budget: budgets.Budget | None, *, now: float
    ) -> list[order.Name]:
        """Give up a pod that may not be evicted now, by a budget if it is known.

        Return who waits for it and tries otherwise.
        """
        if budget is not None:
            self._budgets.refused(budget, victim, now=now)
        before = self._staying.get(victim.uid)
        count = 1 if before is None else before.count + 1
        self._staying[victim.uid] = _Stay(count, now + budgets.delay(count))
        return self.end_for(source, victim.uid)

    def end_for(self, source: ledger.Ledger, uid: PodUID) -> list[order.Name]:
        """Those who wait for a pod, and are named, are decided anew."""
        names = [name for name, live in self._live.items() if uid in live.victims]
        for name in names:
            self.end(source, name)
        return names

    def review(self, source: ledger.Ledger, waiting: line.Line, *, now: float) -> list[order.Name]:
        """End what has lost its ground; whose it was."""
        before = list(self._live)
        for uid in [uid for uid in self._staying if uid not in source.claims]:
            del self._staying[uid]
        self._budgets.forget(now=now)
        for name, live in list(self._live.items()):
            stuck = [uid for uid in live.victims if _is_stuck(source, uid, live, now=now)]
            if stuck:
                self._staying.update({uid: _Stay(0, now + STUCK_SECONDS) for uid in stuck})
                self.end(source, name)
            elif self._is_over(source, name, _ground(source, waiting, live), now=now):
                self.end(source, name)
        return [name for name in before if name not in self._live]

    def _is_over(self, source: ledger.Ledger, name: order.Name, ground: _Ground, *, now: float) -> bool:
        """Return whether nothing is to be held any more."""
        self._shut.discard(name)
        if ground is not _Ground.CLOSED:
            return ground is _Ground.LOST
        live = self._live[name]
        leaves = (roster.standing_of(source, uid) is roster.Standing.LEAVING for uid in live.victims)
        if live.again < math.inf or not any(leaves):
            return True
        # What closes has nothing to do with whether they left in vain.
        self._shut.add(name)
        self._freed.pop(name, None)
        return now >= self._closed.setdefault(name, now) + KEPT_SECONDS

    def end(self, source: ledger.Ledger, name: order.Name) -> None:
        """Nothing is held for a job any more."""
        self._freed.pop(name, None)
        self._closed.pop(name, None)
        self._shut.discard(name)
        source.end_hold(self._live.pop(name).hold)

    def end_all(self, source: ledger.Ledger) -> None:
        """Another leader decides now, or nothing is placed."""
        for name in list(self._live):
            self.end(source, name)


def _tenants(source: ledger.Ledger, nodes: Iterable[NodeName]) -> frozenset[PodUID]:
    """Who has, or is promised, GPUs of these nodes."""
    seen = source.seen()
    there = (seen.nodes[seen.rows[name]] for name in nodes if name in seen.rows)
    return frozenset(tenant.uid for node in there for gpu in node.gpus for tenant in gpu.tenants)


def _is_stuck(source: ledger.Ledger, uid: PodUID, live: _Live, *, now: float) -> bool:
    """Return whether a victim should have gone by now and has not."""
    if uid not in source.claims:
        return False
    record = source.pods.get(uid) or source.graves.pods.get(uid)
    leaves = None if record is None else record.tenure.leaves
    if leaves is None:
        return now >= live.begun + GONE_SECONDS
    return now >= min(leaves, live.begun + GRACE_LIMIT_SECONDS) + GONE_SECONDS


def _ground(source: ledger.Ledger, waiting: line.Line, live: _Live) -> _Ground:
    """Return what is held: lost, too, where its job has got other GPUs or is gone."""
    held, served = source.holds.get(live.hold, {}), False
    for uid in live.hold.holders:
        record, earmark = source.pods.get(uid), source.earmarks.get(uid)
        if record is None or not record.pending:
            continue
        if earmark is not None:
            served |= any(gpu.uuid in held.get(earmark.placed.node, ()) for gpu in earmark.placed.gpus)
        elif uid in source.reserved or waiting.of_pod(uid) is not None:
            return _kept(source, live)
    return _Ground.OPEN if served else _Ground.LOST


def _kept(source: ledger.Ledger, live: _Live) -> _Ground:
    """Return what is held, for a job that waits.

    Lost where a node is gone or takes no pods, or another has some of it.
    """
    seen, found = source.seen(), _Ground.OPEN
    for name, uuids in source.holds.get(live.hold, {}).items():
        row = seen.rows.get(name)
        node = None if row is None else seen.nodes[row]
        if node is None or not node.host.schedulable:
            return _Ground.LOST
        kept = {gpu.uuid for gpu in node.gpus if gpu.hold == live.hold}
        if not uuids or not uuids <= kept:
            return _Ground.LOST
        if node.closed is not None or any(gpu.closed is not None for gpu in node.gpus if gpu.uuid in uuids):
            found = _Ground.CLOSED
    return found if live.hold in source.holds else _Ground.LOST
