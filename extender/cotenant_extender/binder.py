"""bind: commit one pod to GPUs of one node, once.

One Binding carries the pod's UID and resource version as preconditions and the placement as annotation; the API server
applies both or neither. Binds of one pod run one after another. Between choosing the GPUs and reserving them nothing
else runs, so that binds on one node are serialised without waiting for each other's replies.

A Binding whose reply was lost may take effect at any later time. The reservation stands until the pod is seen bound or
gone, or has another resource version than the Binding names; where it has not, it is given one (see `fencing`).
"""

import asyncio
import contextlib
import enum
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from cotenant_api import placement
from cotenant_api.names import Namespace, PodUID
from cotenant_extender import bursts, context, fencing, leadership, locks, records, slots, verbs, wire
from cotenant_extender.kube import client, pods, transport
from cotenant_extender.ledger import earmarks, views
from cotenant_extender.packing import causes, placing, policies, view

LOG = logging.getLogger(__name__)

IN_FLIGHT = 256
"""Of which a namespace has half at most (see `slots`)."""
SLOT_SECONDS = 0.5
"""A slot is waited for no longer: Bindings of the namespace hang, and its other pods come again later."""
FENCES = 128
"""Of which a namespace has a third at most."""
ENOUGH = 128
"""While so many are asked for, kube-scheduler is kept from finding nodes for more; those that hang do not count."""
ROOM_SECONDS = 0.1
"""How often it is looked whether Bindings hang by now."""
CHANGES = 3
"""How often a pod that changed before its Binding came is decided on anew, before kube-scheduler has to ask again."""
PATIENCE_SECONDS = 5.0
"""How long kube-scheduler is kept waiting for a Binding without reply; the reservation stands for longer."""
FIRST_DELAY_SECONDS = 0.1
MAX_DELAY_SECONDS = 1.0
LEFTOVERS = 16
"""Of how many Bindings without reply it is found out at a time what became of them; namespaces take turns."""


_UNKNOWN = "whether the Binding took effect is not known yet"
_CROWDED = "writes to other pods of its namespace take long: look at the admission webhooks that see its pods"


class Result(enum.StrEnum):
    """How a bind ended."""

    BOUND = "bound"
    ALREADY = "already_bound"
    REFUSED = "refused"
    CONFLICT = "conflict"
    LOST = "lost"
    NOT_LEADING = "not_leading"


class Outcome(NamedTuple):
    """How a bind ended; the message is empty on success."""

    result: Result
    message: str


class Binder:
    """Sends Bindings."""

    def __init__(self, shared: context.Context) -> None:
        self._ledger, self._api, self._metrics = shared.ledger, shared.api, shared.metrics
        self._leader, self._clock, self._latest = shared.leadership, shared.clock, shared.latest
        self._stopwatch = shared.stopwatch
        self._urgency, self._freshness = shared.urgency, shared.freshness
        self._fences = fencing.Fences(shared)
        self._locks = locks.Locks()
        self._slots, self._fencing = slots.Slots(IN_FLIGHT, part=1), slots.Slots(FENCES)
        self._asked = slots.Moving(shared.stopwatch, hangs_seconds=leadership.BINDING_SECONDS)
        self._hang: set[Namespace] = set()
        self._ended_one = asyncio.Event()
        self._bursts = bursts.Bursts(shared.stopwatch, shared.api.sleep)
        self._sent: dict[PodUID, int] = {}
        self._answered: set[PodUID] = set()

    @property
    def full(self) -> bool:
        """Whether as many Bindings are asked for as may be, without those that hang."""
        return self._asked.at_least(ENOUGH)

    async def room(self) -> None:
        """Wait until another Binding may be asked for."""
        while self.full:
            self._ended_one.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROOM_SECONDS):
                    await self._ended_one.wait()

    async def bind(self, asked: wire.BindingArgs) -> str:
        """Bind a pod; the reason of a refusal, empty on success."""
        async with self._locks.of(asked.uid):
            outcome = await self._bind(asked)
        self._metrics.binds.labels(outcome.result).inc()
        if outcome.message:
            LOG.warning("bind %s/%s to %s: %s", asked.namespace, asked.name, asked.node, outcome.message)
        return outcome.message

    def doubt(self, uids: Iterable[PodUID]) -> None:
        """Note pods that a former leader may be binding: nothing else is done to them before they bear our mark."""
        for uid in uids:
            self._sent.setdefault(uid, self._ledger.pods[uid].version)

    async def resolve_leftovers(self) -> None:
        """Find out about Bindings whose replies were lost while the API server could not be reached."""
        left = slots.in_turns((uid for uid in self._sent if uid not in self._locks), self._namespace)[:LEFTOVERS]
        await asyncio.gather(*(self._resolve_leftover(uid) for uid in left))
        await self._review_answered()

    def _namespace(self, uid: PodUID) -> str:
        known = self._ledger.pods.get(uid)
        return "" if known is None else known.namespace

    async def _resolve_leftover(self, uid: PodUID) -> None:
        if uid in self._locks:
            # Whoever binds it finds out about it, and may wait long for a slot.
            return
        async with self._locks.of(uid):
            record = self._ledger.pods.get(uid)
            if record is None or uid not in self._ledger.reserved:
                self._forget(uid)
            elif uid in self._sent:
                # The next time others come first.
                self._sent[uid] = self._sent.pop(uid)
                await self._resolve(record, patience_seconds=0.0)

    async def _review_answered(self) -> None:
        """Read pods whose Bindings were answered and that no event has shown bound since this was asked last.

        After etcd was restored from a snapshot, a Binding that was answered may not be there any more.
        """
        answered = {uid for uid in self._ledger.reserved if uid not in self._sent and uid not in self._locks}
        late, self._answered = answered & self._answered, answered
        for uid in sorted(late):
            if uid in self._locks:
                continue
            async with self._locks.of(uid):
                record = self._ledger.pods.get(uid)
                if record is None or record.node is not None or uid in self._sent:
                    continue
                try:
                    found = await self._fences.read(record.namespace, record.name, uid)
                except fencing.UNREADABLE as error:
                    LOG.warning("reading %s/%s: %s", record.namespace, record.name, error)
                    continue
                if found is not None and found.node is None:
                    LOG.warning("%s/%s is not bound, although its Binding was answered", found.namespace, found.name)
                    self._ledger.release(uid)

    async def _bind(self, asked: wire.BindingArgs) -> Outcome:
        try:
            record = self._ledger.pods.get(asked.uid)
            if record is None:
                record = await self._fences.read(asked.namespace, asked.name, asked.uid)
        except fencing.UNREADABLE as error:
            return Outcome(Result.REFUSED, f"the pod cannot be read: {error}")
        if record is None:
            return Outcome(Result.REFUSED, "there is no such pod")
        if record.uid not in self._ledger.pods:
            # What would be reserved for it would not count.
            return Outcome(Result.REFUSED, "the pod is gone, as far as the ledger knows")
        # One more: what is bound to other GPUs than were promised is promised these first.
        for _ in range(CHANGES + 1):
            # Between this and the choice nothing else runs: to choose may take the whole fleet.
            await self._freshness.wait()
            record = self._ledger.pods.get(asked.uid)
            if record is None:
                return Outcome(Result.CONFLICT, "the pod is gone")
            outcome = await self._decide(record, asked)
            if outcome is not None:
                return outcome
        return Outcome(Result.CONFLICT, "the pod changed each time before its Binding came")

    async def _decide(self, record: records.Pod, asked: wire.BindingArgs) -> Outcome | None:
        """Bind a pod as it was last seen; None where it has changed since."""
        if record.node is not None:
            return _standing(record, asked)
        if record.uid in self._sent:
            async with self._fencing.within(record.namespace, 0) as may:
                unresolved = await self._resolve(record) if may else f"{_UNKNOWN}, and {_CROWDED}"
            return None if unresolved is None else Outcome(Result.LOST, unresolved)
        pinned = self._ledger.reserved.get(record.uid)
        if pinned is not None:
            # Bound a moment ago: the watch has yet to show it.
            return _standing(replace(record, node=pinned.node, placement=pinned), asked)
        if fencing.foreign(record, self._ledger.earmarks):
            # The queue earmarks it again, and so moves its version, before it is bound.
            self._ledger.end_earmark(record.uid)
            return Outcome(Result.NOT_LEADING, "the pod does not bear the mark of this extender")
        chosen = self._choose(record, asked)
        if not isinstance(chosen, placement.Placement):
            return Outcome(Result.REFUSED, chosen)
        commit = self._commit if earmarks.promises(record, chosen) else self._promise
        return await commit(record, chosen)

    async def _promise(self, record: records.Pod, chosen: placement.Placement) -> Outcome | None:
        """Write the GPUs into the pod's earmark; None: then it is decided anew.

        A new leader that cannot mark the pod reserves what its earmark names: a Binding of ours may still arrive.
        """
        if not self._leader.serves(now=self._latest()):
            return Outcome(Result.NOT_LEADING, f"this extender does not lead: {self._leader.describe()}")
        async with self._fencing.within(record.namespace, 0) as may:
            if not may:
                return Outcome(Result.REFUSED, f"its earmark is not written, as {_CROWDED}")
            earmark = self._ledger.earmark(record.uid, chosen, now=self._clock())
            try:
                await self._fences.promised(record, earmark)
            except fencing.UNREADABLE as error:
                return Outcome(Result.REFUSED, f"its earmark cannot be written: {error}")
        return None

    async def _commit(self, record: records.Pod, chosen: placement.Placement) -> Outcome | None:
        """Bind a pod to the GPUs that its earmark names; None where it had changed."""
        self._ledger.reserve(record.uid, chosen)
        term = self._leader.served
        try:
            # Whose last Binding hung has another that most likely does, too.
            with contextlib.nullcontext() if record.namespace in self._hang else self._asked.one():
                async with self._slots.within(record.namespace, SLOT_SECONDS) as may:
                    if not may:
                        self._ledger.release(record.uid)
                        return Outcome(Result.REFUSED, f"it is not bound, as {_CROWDED}")
                    with self._urgency.urgent():
                        await self._bursts.turn()
                        return await self._send(record, chosen, term)
        finally:
            self._ended_one.set()

    def _choose(self, record: records.Pod, asked: wire.BindingArgs) -> placement.Placement | str:
        """Return GPUs of the node on fresh state, the earmarked ones first; or why there are none."""
        policy = self._ledger.policy
        if policy is None or not policy.places:
            return "there is no PackingPolicy" if policy is None else policy.standstill
        request = self._ledger.index.asked(record)
        if request is None:
            return f"InvalidRequest: {record.invalid or 'the pod asks for no GPU share'}"
        return self._place(request, asked, policy)

    def _place(
        self, request: view.Request, asked: wire.BindingArgs, policy: policies.InForce
    ) -> placement.Placement | str:
        uid = request.demand.uid
        claim = self._ledger.claims.get(uid)
        if claim is not None and claim.node == asked.node:
            promised = [entry.uuid for entry in claim.bookings]
            seen = views.node(self._ledger, asked.node, without=uid, gpus=promised)
            found = placing.choose(seen, request, self._ledger.known, check_host=False)
            if found is not None:
                return placing.document(found, request, policy, self._ledger.known)
        seen = views.node(self._ledger, asked.node, without=uid)
        placed = placing.place(seen, request, self._ledger.known, check_host=False)
        if isinstance(placed, causes.Rejection):
            return f"{placed.reason}: {placed.message}"
        return "{}: {}".format(*verbs.NOT_PROMISED) if claim is None else placed

    async def _send(
        self, record: records.Pod, placed: placement.Placement, term: leadership.Term | None
    ) -> Outcome | None:
        """POST the Binding, if we still serve in the same term; None where the pod had changed before it came.

        The reservation stands until the end of the Binding is known.
        """
        seconds = self._leader.binding_seconds(term, now=self._latest())
        if seconds < 1.0:
            self._ledger.release(record.uid)
            return Outcome(Result.NOT_LEADING, f"this extender does not lead: {self._leader.describe()}")
        path = pods.pod_path(record.namespace, record.name, "binding")
        earmark = self._ledger.earmarks.get(record.uid)
        self._sent[record.uid] = record.version
        self._metrics.binds_in_flight.inc()
        try:
            await self._api.post_once(path, pods.binding(record, placed), timeout_seconds=seconds)
        except transport.UnansweredError as error:
            LOG.warning("bind %s/%s: the reply was lost, reading the pod: %s", record.namespace, record.name, error)
            self._hang.add(record.namespace)
            unresolved = await self._resolve(record)
            return None if unresolved is None else Outcome(Result.LOST, unresolved)
        except (client.ConflictError, client.NotFoundError):
            return await self._refused(record)
        except (client.APIError, client.BusyError) as error:
            self._forget(record.uid)
            return Outcome(Result.REFUSED, str(error))
        finally:
            self._metrics.binds_in_flight.dec()
        self._sent.pop(record.uid, None)
        self._hang.discard(record.namespace)
        if earmark is not None:
            self._metrics.placement_seconds.observe(max(self._clock() - earmark.made, 0.0))
        self._count(record, placed)
        return Outcome(Result.BOUND, "")

    def _count(self, record: records.Pod, placed: placement.Placement) -> None:
        if record.request is None:
            return
        for gpu in placed.gpus:
            model = views.model(self._ledger, placed.node, gpu.uuid)
            if model is not None:
                self._metrics.placed(record.request.demand, model, gpu.share)

    async def _refused(self, record: records.Pod) -> Outcome | None:
        """Read a pod whose Binding was refused: it has changed, is bound, or is gone."""
        self._forget(record.uid)
        try:
            await self._fences.read(record.namespace, record.name, record.uid)
        except fencing.UNREADABLE as error:
            return Outcome(Result.CONFLICT, f"the pod cannot be read: {error}")
        return None

    async def _resolve(self, record: records.Pod, *, patience_seconds: float = PATIENCE_SECONDS) -> str | None:
        """Wait until a Binding without reply has taken effect or never can; why it is not known, if it is not."""
        until = self._stopwatch() + patience_seconds
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                found = await self._ended(record)
            except fencing.UNREADABLE as error:
                if self._stopwatch() + delay > until:
                    return f"{_UNKNOWN}: {error}"
                await self._api.sleep(delay)
                delay = min(2 * delay, MAX_DELAY_SECONDS)
                continue
            if found is None or found.node is not None:
                self._sent.pop(record.uid, None)
            else:
                self._forget(record.uid)
            return None

    async def _ended(self, record: records.Pod) -> records.Pod | None:
        """Return the pod when its Binding has taken effect or never can; None: the pod is gone.

        Raises:
            UnansweredError: it still may, as with all others of `fencing.UNREADABLE`.
        """
        if record.uid in self._ledger.earmarks.unmarked:
            # A former leader that still runs may bind the pod as it is now: only our mark keeps it from that.
            return await self._fences.taken_over(record)
        return await self._fences.settled(record, version=self._sent[record.uid])

    def _forget(self, uid: PodUID) -> None:
        self._sent.pop(uid, None)
        self._ledger.earmarks.unmarked.discard(uid)
        self._ledger.release(uid)


def _standing(record: records.Pod, asked: wire.BindingArgs) -> Outcome:
    """Return what a bind of a pod that is bound already answers."""
    if record.node == asked.node and record.placement is not None:
        return Outcome(Result.ALREADY, "")
    where = f"the pod is bound to {record.node}"
    return Outcome(Result.CONFLICT, where if record.node != asked.node else f"{where} without a valid placement")
