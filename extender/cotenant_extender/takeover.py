"""Take over from a former leader: fence every pod that it may be binding, then adopt what it promised.

A former leader may have sent Bindings that have not arrived yet. Each names a pod whose gate was lifted, and the
resource version that the former leader knew. So every pod that is not bound and has no gate gets the mark of the new
term, which moves its version, before anything is placed. A former leader that still runs and sees the mark does not
bind that pod (see `fencing.foreign`).

A pod that can be read and not marked keeps nobody waiting: a webhook of its namespace may be down, or its author may
write it all the time. Where writes of a namespace take long while its pods can be read, its other pods are not even
tried. GPUs that a former leader promised such a pod are reserved whole: that leader may be binding it to them, and
nobody else knows how much of them, as the policy may be another since. The pod itself is not bound. The binder goes on
trying to mark it (see `binder.Binder.doubt`).
"""

import asyncio
import collections
import logging
import math
from collections.abc import Callable
from typing import NamedTuple

from cotenant_api import placement
from cotenant_api.names import HUNDREDTHS, Namespace, PodUID
from cotenant_extender import context, fencing, records, slots, steps
from cotenant_extender.kube import client, transport
from cotenant_extender.ledger import earmarks, ledger, views
from cotenant_extender.packing import placing, policies

LOG = logging.getLogger(__name__)

IN_FLIGHT = 192
"""Of which a namespace has a third at most (see `slots`)."""
PODS_PER_STEP = 10
FIRST_DELAY_SECONDS = 0.2
MAX_DELAY_SECONDS = 5.0
TRIES = 3
"""How often a pod that can be read is tried to be marked, before this extender serves without it."""
SLOW_WRITES = 3
"""After so many slow writes, one after the other, the other pods of a namespace are given up, whatever came of these.

Those that were under way at once count as one: the API server may have stood still for a moment.
"""
SLOW_SECONDS = 1.0
"""A write that took less keeps nobody waiting."""


class _Slow(NamedTuple):
    """How many slow writes of a namespace count, and when the latest of them was noted."""

    number: int = 0
    latest: float = -math.inf


class TakeOver:
    """Fences pods at the beginning of a term."""

    def __init__(self, shared: context.Context) -> None:
        self._ledger, self._api = shared.ledger, shared.api
        self._fences = fencing.Fences(shared)
        self._tried: collections.Counter[PodUID] = collections.Counter()
        self._slow: dict[Namespace, _Slow] = {}
        self._stopwatch = shared.stopwatch

    async def fence_all(self, still: Callable[[], bool]) -> bool:
        """Fence every pod that a former leader may be binding, those that come meanwhile too.

        Pods that cannot be marked are noted in the ledger's earmarks as `unmarked`.

        Args:
            still: whether this extender still leads in the term for which it takes over.

        Returns:
            Whether all others are fenced; False where it leads no longer.
        """
        self._tried.clear()
        self._slow.clear()
        fenced: set[PodUID] = set()
        delay = FIRST_DELAY_SECONDS
        while still():
            left = [
                record
                for record in self._ledger.index.pending.values()
                if not record.gates and record.uid not in fenced
            ]
            if not left:
                return True
            LOG.info("takes over: fences %d pods that a former leader may be binding", len(left))
            try:
                await self._fences.confirm_term()
            except fencing.UNREADABLE as error:
                LOG.warning("the Lease of kube-scheduler: %s", error)
                await self._api.sleep(delay)
                delay = min(2 * delay, MAX_DELAY_SECONDS)
                continue
            turns = slots.Slots(IN_FLIGHT)
            done = await asyncio.gather(*(self._fence(record, turns) for record in left))
            fenced.update(uid for uid in done if uid is not None)
            if None in done:
                await self._api.sleep(delay)
                delay = min(2 * delay, MAX_DELAY_SECONDS)
        return False

    async def _fence(self, record: records.Pod, turns: slots.Slots) -> PodUID | None:
        """Fence one pod, or give up where it can be read and not marked; None: not yet."""
        async with turns.of(record.namespace):
            if self._slow.get(record.namespace, _Slow()).number >= SLOW_WRITES:
                self._give_up(record, transport.UnansweredError("writes to pods of its namespace take long"))
                return record.uid
            began = self._stopwatch()
            try:
                await self._fences.taken_over(record, confirmed=True)
                self._note_slow(record.namespace, began, took=self._stopwatch() - began)
            except client.APIError as error:
                self._give_up(record, error)
            except fencing.UNREADABLE as error:
                LOG.warning("fencing %s/%s: %s", record.namespace, record.name, error)
                took = self._stopwatch() - began
                if not await self._fences.readable(record):
                    return None
                self._note_slow(record.namespace, began, took=took)
                self._tried[record.uid] += 1
                if self._tried[record.uid] < TRIES:
                    return None
                self._give_up(record, error)
        return record.uid

    def _note_slow(self, namespace: Namespace, began: float, *, took: float) -> None:
        known = self._slow.get(namespace, _Slow())
        if took >= SLOW_SECONDS and began >= known.latest:
            self._slow[namespace] = _Slow(known.number + 1, self._stopwatch())

    def _give_up(self, record: records.Pod, error: Exception) -> None:
        self._ledger.earmarks.unmarked.add(record.uid)
        LOG.warning("%s/%s cannot be marked, and is not bound: %s", record.namespace, record.name, error)


def adopting(source: ledger.Ledger, clock: Callable[[], float]) -> steps.Steps[None]:
    """Take over, in steps, what a former leader promised to pods that kube-scheduler has not bound yet.

    GPUs that it promised to a pod that could not be marked are reserved: that leader may be binding the pod.
    """
    lifted = [record.uid for record in source.index.pending.values() if not record.gates and record.earmark]
    for count, uid in enumerate(lifted, start=1):
        record, policy = source.index.pending.get(uid), source.policy
        if record is not None and policy is not None:
            _adopt(source, record, policy, now=clock())
        if count % PODS_PER_STEP == 0:
            yield


def _adopt(source: ledger.Ledger, record: records.Pod, policy: policies.InForce, *, now: float) -> None:
    written = earmarks.note(record)
    if record.gates or written is None or not written.gpus:
        return
    if record.uid in source.earmarks.unmarked:
        source.reserve(record.uid, _whole(record, written, policy))
    elif not record.reported and (placed := _promised(source, record, written, policy)) is not None:
        # A report that stands is of a try with the earmark: the one before was taken back when it was written.
        source.adopt(record.uid, placed, now=now)


def _promised(
    source: ledger.Ledger, record: records.Pod, written: earmarks.Note, policy: policies.InForce
) -> placement.Placement | None:
    """Return what an earmark promises, by what its GPUs are; None where not all of them are known."""
    seen = views.node(source, written.node, gpus=written.gpus)
    if record.request is None or not seen.nodes or len(seen.nodes[0].gpus) < len(written.gpus):
        return None
    found = placing.chosen(seen, record.request, 0, tuple(range(len(written.gpus))))
    return None if found is None else placing.document(found, record.request, policy, source.known)


def _whole(record: records.Pod, written: earmarks.Note, policy: policies.InForce) -> placement.Placement:
    """All of the GPUs that an earmark names: by which policy a former leader books them is not known."""
    return placement.Placement(
        pod_uid=record.uid,
        node=written.node,
        container="" if record.request is None else record.request.demand.container,
        policy_generation=policy.generation,
        backend=placement.Backend.WHOLE,
        gpus=tuple(
            placement.GPUBooking(
                uuid=uuid, share=HUNDREDTHS, active_thread_percentage=100, memory_mib=0, client_priority=0
            )
            for uuid in written.gpus
        ),
    )
