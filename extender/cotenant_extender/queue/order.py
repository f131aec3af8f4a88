"""The order of the queue.

Priority first. Among pods of one priority, those that have waited longer than `maxWaitSeconds` go first, the oldest of
them before all; then the larger share, discounted by waiting (`order: DecreasingShare`), or the one that came first
(`FIFO`); then the UID.

`DecreasingShare` ranks by share x 2^(waited / d): a share counts double for every d seconds that its job has waited. Of
two jobs the same goes first at any time, as time multiplies both ranks alike; so the key is the time at which the job
would have joined if its share were 1 hundredth, and never changes:

    since - d x log2(share)          d = maxWaitSeconds / DOUBLINGS

Who has n times the share goes before those that joined up to d x log2(n) seconds earlier, and before nobody else. Jobs
that join together go by share alone.

The bound on waiting: from `maxWaitSeconds` on, no pod of the same priority that joined later goes before, and the GPUs
that the oldest of them needs are held (see `holds`). A gang counts as one, with the sum of its shares. Its pods have
one priority (see `pod.GangKey`), and it has waited for as long as the youngest of those that wait.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cotenant_api import packingpolicy
from cotenant_api.names import PodUID
from cotenant_extender import records
from cotenant_extender.ledger import index, ledger
from cotenant_extender.packing import view

LOOSE_SECONDS = 10.0
"""A pod that never had our gate is left to kube-scheduler alone for this long."""

DOUBLINGS = 24
"""How often the rank of a share doubles while its job waits for `maxWaitSeconds`."""

Key = tuple[int, int, float, float, str]
Name = PodUID | index.GangKey


class Entry(NamedTuple):
    """One place in the queue: a pod, or the waiting pods of a gang.

    Attributes:
        name: what it is known by from pass to pass: the pod's UID, or the gang's key.
        gang: how many pods the gang must have, and how many it has; None for a single pod. One too many has none.
        aged: whether it has waited longer than `maxWaitSeconds`.
        since: when the last of its pods joined the queue, in seconds since the epoch.
    """

    key: Key
    name: Name
    members: tuple[records.Pod, ...]
    gang: tuple[int, int] | None
    aged: bool
    since: float

    @property
    def surplus(self) -> bool:
        """Whether it is a pod of a gang that has all of its pods without it."""
        return self.gang is not None and isinstance(self.name, str)

    @property
    def complete(self) -> bool:
        """Whether it is a single pod, or a gang of which all are there."""
        return self.gang is None or self.gang[1] >= self.gang[0]

    @property
    def priority(self) -> int:
        """The priority of each of its pods."""
        return -self.key[0]

    @property
    def gated(self) -> bool:
        """Whether any of its pods still has our gate."""
        return any(member.gates for member in self.members)

    @property
    def requests(self) -> list[view.Request]:
        """What its pods ask for, each as old as the entry."""
        return [index.aged(request_of(member), self.since) for member in self.members]


def waits(source: ledger.Ledger, record: records.Pod, *, now: float) -> bool:
    """Return whether the queue considers a pod: ours is its last gate, or it has none and was left without a place.

    A pod of a gang without a gate is never left to kube-scheduler: gangs are placed whole.
    """
    if record.request is None or record.uid in source.reserved or source.earmarks.get(record.uid) is not None:
        return False
    if record.gates:
        return record.gated
    if record.gang is not None or record.earmark is not None or record.unschedulable is not None:
        return True
    return now - record.since > LOOSE_SECONDS


def single(record: records.Pod, policy: packingpolicy.Queue, *, now: float) -> Entry:
    """Return the place of a pod of no gang, or of one that its gang has too many."""
    made = _entry(record.uid, (record,), (), policy, now=now)
    wanted = None if record.request is None else record.request.demand.gang
    return made if wanted is None else made._replace(gang=(wanted.size, 0))


def gang(
    name: index.GangKey,
    waiting: Iterable[records.Pod],
    all_members: Iterable[records.Pod],
    policy: packingpolicy.Queue,
    *,
    now: float,
) -> Entry:
    """Return the place of a gang's waiting pods, of which there is at least one."""
    members = sorted(waiting, key=lambda member: (member.since, member.name))
    return _entry(name, tuple(members), list(all_members), policy, now=now)


def request_of(record: records.Pod) -> view.Request:
    """Return what a pod in the queue asks for."""
    if record.request is None:
        raise ValueError(f"pod {record.namespace}/{record.name} has no request that can be placed")
    return record.request


def _entry(
    name: Name,
    members: tuple[records.Pod, ...],
    mates: Sequence[records.Pod],
    policy: packingpolicy.Queue,
    *,
    now: float,
) -> Entry:
    """Return the place of these pods; `mates`: all pods of their gang, if they have one."""
    gang = _count(mates) if mates else None
    since = index.complete_since(members[0], mates)
    priority = members[0].priority
    share = sum(member.share for member in members)
    aged = now - since > policy.max_wait_seconds
    uid = members[0].uid
    key: Key
    if aged:
        key = (-priority, 0, since, 0.0, uid)
    elif policy.order is packingpolicy.Order.FIFO:
        key = (-priority, 1, since, 0.0, uid)
    else:
        key = (-priority, 1, since - _head_start(share, policy), since, uid)
    return Entry(key, name, members, gang, aged, since)


def _head_start(share: int, policy: packingpolicy.Queue) -> float:
    """Return how many seconds earlier a share counts as having joined than one hundredth would."""
    return policy.max_wait_seconds / DOUBLINGS * math.log2(max(share, 1))


def _count(members: Iterable[records.Pod]) -> tuple[int, int]:
    """Return how many pods a gang must have, by the member that says most, and how many are bound, lifted or wait."""
    size = there = 0
    for member in members:
        wanted = None if member.request is None else member.request.demand.gang
        size = max(size, 0 if wanted is None else wanted.size)
        ready = member.node is not None or member.gated or not member.gates
        there += 1 if ready and not member.deleting else 0
    return size, there
