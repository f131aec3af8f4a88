"""Holds in vain: GPUs that stand empty for a job which does not start on them, whatever keeps it from that. Pure.

A job that is given what was held for it starts at the next pass. So while nobody is awaited any more, every second is
wasted, and after `IDLE_SECONDS` the hold is given up: pods without a share have the CPU, or something is so that no
rule here knows. The same where held GPUs stand empty, or half so, and it is known that pods without a share have the
CPU, whoever else is awaited. Else GPUs that stand empty while some are awaited are how a job gets several of them; that
is given up after `AWAITING_SECONDS`, and twice as many each time, as nobody knows when those end.

Jobs of the same kind, that is of pods which request the same, wait for the same thing in vain. So the account is of a
kind, not of a job: none of the kind is held for during a pause, which doubles from `PAUSE_SECONDS` to
`LONGEST_PAUSE_SECONDS`, and is as long at least as what was wasted. It ends when nodes have more for the kind than they
ever had since the first time; the account is closed when one of the kind is placed. For each kind of a namespace that
pauses, its other kinds have half the patience: otherwise jobs that differ in a byte would take turns for ever.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from cotenant_api import backoff
from cotenant_api.names import Namespace, NodeName
from cotenant_extender.packing import view

IDLE_SECONDS = 600.0
"""So long GPUs are held for a job that waits for nobody any more."""
AWAITING_SECONDS = 7 * 86_400.0
"""So long held GPUs may stand half empty for a job that waits for others, the first time."""
PAUSE_SECONDS = 600.0
LONGEST_PAUSE_SECONDS = 86_400.0
LOOK_SECONDS = 60.0
"""Of the time between two looks so much counts at most: what was not looked at may have been otherwise."""

Kind = Hashable
Offers = Mapping[NodeName, int]
"""How many pods of a kind nodes could take if all were gone who ever go."""


def kind(job: Sequence[view.Request]) -> Kind:
    """Return what jobs have in common that wait in vain for the same thing.

    Not what kube-scheduler said of one of them.
    """
    return frozenset(Counter((request.alike, request.constraints.of_spec) for request in job).items())


@dataclass(slots=True)
class _Account:
    """What was wasted for a kind.

    Attributes:
        looked: when it was looked at last, in seconds since the epoch.
        idle: seconds for which GPUs stood empty since the last time that a hold was given up.
        spent: which part of its patience that was.
        times: how often a hold was given up.
        until: before when none is held again, in seconds since the epoch.
        offers: the most that there were.
    """

    namespace: Namespace
    looked: float
    idle: float = 0.0
    spent: float = 0.0
    times: int = 0
    until: float = 0.0
    offers: Offers = field(default_factory=dict)


class Vain:
    """Accounts of kinds for which GPUs were held and stood empty."""

    def __init__(self) -> None:
        self._accounts: dict[Kind, _Account] = {}

    def begin(self, of: Kind, *, now: float) -> None:
        """GPUs are held for a job of this kind from now on."""
        if of in self._accounts:
            self._accounts[of].looked = now

    def wasted(self, of: Kind, namespace: Namespace, *, idle: bool, awaits: bool, now: float) -> bool:
        """Count the time since GPUs held for a kind were looked at last; whether the hold is in vain.

        `idle`: the GPUs stand empty, some of them, or nobody is there for whom the job waits. `awaits`: somebody is,
        whose end is expected to give it all that it needs.
        """
        standing = self._accounts.get(of)
        if standing is None:
            if not idle:
                return False
            self._forget(now=now)
            standing = self._accounts[of] = _Account(namespace, looked=now)
        seconds, standing.looked = min(max(now - standing.looked, 0.0), LOOK_SECONDS), now
        if not idle:
            return False
        standing.idle += seconds
        standing.spent += seconds / (AWAITING_SECONDS * 2**standing.times if awaits else IDLE_SECONDS)
        others = (one for one in self._accounts.values() if one is not standing and one.namespace == namespace)
        return standing.spent * 2.0 ** min(sum(1 for one in others if one.until > now), 60) >= 1.0

    def give_up(self, of: Kind, offers: Offers, *, now: float) -> float:
        """Hold nothing for the kind during a pause; return until when, in seconds since the epoch."""
        standing = self._accounts[of]
        doubled = backoff.doubled(PAUSE_SECONDS, standing.times, most=LONGEST_PAUSE_SECONDS)
        standing.until = now + max(doubled, standing.idle)
        standing.idle = standing.spent = 0.0
        standing.times += 1
        standing.offers = most(standing.offers, offers)
        return standing.until

    def pauses(self, of: Kind, offers: Callable[[], Offers], *, now: float) -> float | None:
        """Until when nothing is held for a kind, in seconds since the epoch; None: it may be."""
        standing = self._accounts.get(of)
        if standing is None or standing.until <= now:
            return None
        grown = most(standing.offers, offers())
        if grown == standing.offers:
            return standing.until
        standing.offers, standing.times, standing.until = grown, 0, now
        return None

    def placed(self, of: Kind) -> None:
        """One of the kind has a place."""
        self._accounts.pop(of, None)

    def __bool__(self) -> bool:
        return bool(self._accounts)

    def _forget(self, *, now: float) -> None:
        """Close accounts of kinds that were not looked at, nor paused, for as long as the longest pause."""
        since = now - LONGEST_PAUSE_SECONDS
        self._accounts = {of: one for of, one in self._accounts.items() if max(one.looked, one.until) > since}


def most(one: Offers, other: Offers) -> Offers:
    """Return the larger of each."""
    return {**one, **{name: max(count, one.get(name, 0)) for name, count in other.items()}}
