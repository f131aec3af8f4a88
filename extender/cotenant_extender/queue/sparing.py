"""Evictions in vain: victims left for a job, and it does not start. Nobody else leaves for its like for a while. Pure.

What keeps a job from the GPUs that were freed for it keeps others like it from theirs: pods without a share that have
the CPU, for example. So the account is of a kind of jobs (see `vain`), for jobs of no higher priority than those that
victims left for. Where kube-scheduler failed the job, at a volume or a Binding, the account is of this job alone:
others like it may be well.

A pause doubles from `PAUSE_SECONDS` to `LONGEST_PAUSE_SECONDS`. That of a kind ends when pods without a share leave it
more of a node than they ever did since the first time, and its account is closed when one of the kind is bound: a
promise may come to nothing. Another policy closes all accounts. Jobs that differ in a byte are of different kinds, and
each may cost one victim; so while several of a namespace pause its others evict nobody either, for a time since victims
last left in vain that doubles with each, from `PAUSE_SECONDS` to `LONGEST_FOR_OTHERS_SECONDS`.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant_api import backoff
from cotenant_api.names import Namespace, PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import view
from cotenant_extender.queue import forecast, order, roster, vain

PAUSE_SECONDS = 300.0
LONGEST_PAUSE_SECONDS = 86_400.0
LONGEST_FOR_OTHERS_SECONDS = 3600.0
KEPT_SECONDS = 86_400.0
"""An account is kept for so long after its pause."""


@dataclass(slots=True)
class _Account:
    """What was in vain.

    Attributes:
        pods: of the job, if it is of one alone.
        priority: the highest of the jobs that victims left for.
        times: how often they did.
        since: when they did last, in seconds since the epoch.
        until: before when nobody is evicted, in seconds since the epoch.
        offers: the most that there were.
    """

    namespace: Namespace
    pods: frozenset[PodUID]
    priority: int
    times: int = 0
    since: float = 0.0
    until: float = 0.0
    offers: vain.Offers = field(default_factory=dict)


def offered(source: ledger.Ledger, held: roster.Roster, job: Sequence[view.Request]) -> vain.Offers:
    """Return how many of a job's pods each node could take if nobody were on its GPUs, beside all that are not."""
    seen = source.seen()
    field = forecast.Field(seen, held, np.zeros(held.share.shape), seen.present)
    seats = forecast.seats(field, forecast.kinds(job), forecast.beside_others(field))
    return {seen.nodes[row].name: int(seats[row]) for row in np.flatnonzero(seats).tolist()}


class Sparing:
    """For which jobs nobody is evicted, and until when; a new leader begins with none."""

    def __init__(self) -> None:
        self._accounts: dict[Hashable, _Account] = {}
        self._promised: dict[order.Name, tuple[frozenset[PodUID], vain.Kind]] = {}
        self._generation: int | None = None

    def in_vain(self, entry: order.Entry, offers: vain.Offers | None, *, now: float) -> None:
        """Victims have left for a job in vain. `offers`: None where kube-scheduler failed this job."""
        member = entry.members[0]
        key = entry.name if offers is None else vain.kind(entry.requests)
        pods = frozenset(one.uid for one in entry.members) if offers is None else frozenset[PodUID]()
        account = self._accounts.setdefault(key, _Account(member.namespace, pods, entry.priority))
        pause = backoff.doubled(PAUSE_SECONDS, account.times, most=LONGEST_PAUSE_SECONDS)
        account.since, account.until = now, now + pause
        account.times, account.priority = account.times + 1, max(account.priority, entry.priority)
        account.offers = vain.most(account.offers, offers or {})

    def until(self, entry: order.Entry, *, now: float, offers: Callable[[], vain.Offers] | None = None) -> float | None:
        """Return until when nobody is evicted for a job, in seconds since the epoch; None: some may.

        `offers`: what nodes have for its kind, if it is to be looked at.
        """
        if not self._accounts:
            return None
        own = [self._accounts.get(entry.name), self._accounts.get(vain.kind(entry.requests))]
        if offers is not None and own[1] is not None and _holds(own[1], entry, now=now):
            _look(own[1], offers(), now=now)
        standing = [one.until for one in own if one is not None and _holds(one, entry, now=now)]
        others = (one for one in self._accounts.values() if all(one is not mine for mine in own))
        namespace = entry.members[0].namespace
        same = [one.since for one in others if one.namespace == namespace and _holds(one, entry, now=now)]
        if len(same) > 1:
            standing.append(max(same) + backoff.doubled(PAUSE_SECONDS, len(same) - 2, most=LONGEST_FOR_OTHERS_SECONDS))
        latest = max(standing, default=now)
        return latest if latest > now else None

    def promised(self, entry: order.Entry) -> None:
        """Note that a job is promised GPUs: when it is bound, nothing is in the way of its kind any more."""
        if self._accounts and (kind := vain.kind(entry.requests)) in self._accounts:
            self._promised[entry.name] = frozenset(member.uid for member in entry.members), kind

    def review(self, source: ledger.Ledger, generation: int, *, now: float) -> None:
        """Close the accounts of kinds of which one is bound, of jobs that are gone, and of other policies."""
        if generation != self._generation:
            self._accounts, self._promised, self._generation = {}, {}, generation
        if not self._accounts:
            return
        for name, (pods, kind) in list(self._promised.items()):
            there = [record for uid in pods if (record := source.pods.get(uid)) is not None]
            if any(record.node is not None for record in there):
                self._accounts.pop(kind, None)
            if not any(record.pending for record in there):
                del self._promised[name]
        self._accounts = {
            key: one
            for key, one in self._accounts.items()
            if one.until + KEPT_SECONDS > now and (not one.pods or any(_waits(source, uid) for uid in one.pods))
        }


def _look(account: _Account, offers: vain.Offers, *, now: float) -> None:
    """End the pause of a kind if nodes have more for it than they ever had."""
    grown = vain.most(account.offers, offers)
    if grown != account.offers:
        account.offers, account.times, account.until = grown, 0, now


def _holds(account: _Account, entry: order.Entry, *, now: float) -> bool:
    """Return whether an account's pause is for jobs of this priority, and not over."""
    return account.until > now and account.priority >= entry.priority


def _waits(source: ledger.Ledger, uid: PodUID) -> bool:
    record = source.pods.get(uid)
    return record is not None and record.pending
