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
from cotenant_extender.packing import fleet, rules


def asked(source: ledger.Ledger, uid: PodUID, names: Collection[NodeName], *, left: bool, now: float) -> None:
    """Remember which nodes kube-scheduler named to filter; `left`: whether filter left one."""
    if source.earmarks.tried(uid):
        source.reconsider([uid])
    if source.hosts.tries.asked(uid, left=left):
        _learn(source, uid, names, now=now)


def settle(source: ledger.Ledger, *, now: float) -> None:
    """Learn from tries in which filter was not asked, and forget verdicts that are old or whose reason has gone."""
    for uid in source.hosts.tries.silent():
        _learn(source, uid, (), now=now)
    for record in source.hosts.departed():
        source.reconsider(_freed(source, record))
    source.reconsider(source.hosts.tries.expired(now=now))


def _learn(source: ledger.Ledger, uid: PodUID, names: Collection[NodeName], *, now: float) -> None:
    record = source.pods.get(uid)
    if record is None or record.request is None or not record.pending or source.policy is None:
        return
    with views.without(source, uid) as seen:
        found = ~_named(seen, names) & rules.hosts(seen, record.request)
        answer = tries.Answer.of(seen.rows, found, silent=not names, now=now)
    source.reconsider([uid, *source.hosts.tries.learn(uid, answer)])


def _freed(source: ledger.Ledger, record: records.Pod) -> list[PodUID]:
    """Take the node that a pod has left out of the verdicts of those that could not be beside it; return these."""
    if record.node is None:
        return []
    refused = [source.pods[uid] for uid in source.hosts.tries.refused_on(record.node)]
    freed = [waiting.uid for waiting in refused if waiting.excluded_by(record)]
    for uid in freed:
        source.hosts.tries.accept(uid, record.node)
    return freed


def _named(seen: fleet.Fleet, names: Collection[NodeName]) -> rules.Array:
    found = np.zeros(len(seen), dtype=np.bool_)
    found[[row for row in map(seen.rows.get, names) if row is not None]] = True
    return found
