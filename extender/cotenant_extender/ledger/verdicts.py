"""What kube-scheduler's tries mean for nodes: which were refused for a reason that nothing here knows. Pure.

A node counts as refused where kube-scheduler's plugins left it out although all that the queue evaluates would accept
it: a host port, another pod, a spread constraint, a volume or another resource is in the way there. A node that the
queue's own rules refuse at that moment (cordoned, short of CPU) does not: nothing else may be in the way there.
kube-scheduler must ignore `gpu-share` (`ignoredByScheduler`), so that it names nodes whose GPUs are full, too.
"""

from collections.abc import Collection

import numpy as np

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger, tries, views
from cotenant_extender.packing import conflicts, fleet, rules

PARTS = 5_000
"""So many parts of what pods exclude are compared in a pass: about five milliseconds."""
KINDS_PER_PART = 4
"""So many different answers are looked at in the time in which one part is compared."""
PARTS_PER_VERDICT = 100
"""So many parts are compared in the time in which the verdict on one pod is changed, with all that follows."""
AT_ONCE = PARTS // PARTS_PER_VERDICT
"""So many verdicts are learned in a pass, and as many forgotten."""


def asked(source: ledger.Ledger, uid: PodUID, names: Collection[NodeName], *, left: bool, now: float) -> None:
    """Remember which nodes kube-scheduler named to filter; `left`: whether filter left one."""
    if source.earmarks.tried(uid):
        source.reconsider([uid])
    if source.hosts.tries.asked(uid, left=left):
        _learn(source, uid, names, now=now)


def settle(source: ledger.Ledger, *, now: float) -> None:
    """Learn from tries in which filter was not asked, and forget verdicts that are old or whose reason has gone."""
    known, departures = source.hosts.tries, source.hosts.departures
    for uid in known.silent(most=AT_ONCE):
        _learn(source, uid, (), now=now)
    source.reconsider(_freed(source))
    expired = known.expired(now=now, most=AT_ONCE)
    source.reconsider(expired)
    if departures or known.any_silent or len(expired) == AT_ONCE:
        # The next pass goes on with them.
        source.version += 1


def _learn(source: ledger.Ledger, uid: PodUID, names: Collection[NodeName], *, now: float) -> None:
    record = source.pods.get(uid)
    if record is None or record.request is None or not record.pending or source.policy is None:
        return
    with views.without(source, uid) as seen:
        found = ~_named(seen, names) & rules.hosts(seen, record.request)
        excludes = record.excludes is not conflicts.NOTHING
        answer = tries.Answer.of(seen.rows, found, silent=not names, now=now, excludes=excludes)
    source.reconsider([uid, *source.hosts.tries.learn(uid, answer)])


def _freed(source: ledger.Ledger) -> list[PodUID]:
    """Take nodes that pods have left out of the verdicts of those that could not be beside them; return these.

    It ends after `PARTS`: what one tenant's pods exclude, and how many of them end, is no reason to answer nobody.
    """
    known, freed, parts = source.hosts.tries, [], 0

    def refused(left: records.Pod) -> list[PodUID]:
        # Of two pods that exclude nothing neither keeps the other away.
        return known.refused_on(left.node, excluding=left.excludes is conflicts.NOTHING) if left.node else []

    for left, uid in source.hosts.departures.pairs(refused):
        waiting = None if uid is None else source.pods.get(uid)
        if waiting is None or left.node is None:
            parts += 1 + known.kinds // KINDS_PER_PART
        else:
            parts += 1 + waiting.excludes.parts + left.excludes.parts
            if waiting.excluded_by(left) and known.accept(waiting.uid, left.node):
                freed.append(waiting.uid)
                parts += PARTS_PER_VERDICT
        if parts >= PARTS:
            break
    return freed


def _named(seen: fleet.Fleet, names: Collection[NodeName]) -> rules.Array:
    found = np.zeros(len(seen), dtype=np.bool_)
    found[[row for row in map(seen.rows.get, names) if row is not None]] = True
    return found
