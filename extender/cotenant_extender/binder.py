"""bind: commit one pod to GPUs of one node, once.

One Binding carries the pod's UID as precondition and the placement as annotation; the API server applies both or
neither. Binds of one pod run one after another. Between choosing the GPUs and reserving them nothing else runs, so
that binds on one node are serialised without waiting for each other's replies.

A reply that was lost is resolved by reading the pod. The API server ends a Binding by its `timeout`; a pod that is
still unbound after that was not bound by it. Until then the reservation stands.
"""

import asyncio
import enum
import logging
from dataclasses import replace
from typing import NamedTuple

from cotenant_api import placement
from cotenant_api.names import PodUID
from cotenant_extender import context, leadership, locks, records, wire
from cotenant_extender.kube import client, pods, transport
from cotenant_extender.ledger import views
from cotenant_extender.packing import causes, placing, policies, view

LOG = logging.getLogger(__name__)

IN_FLIGHT = 128
READ_SECONDS = 2.0
FIRST_READ_DELAY_SECONDS = 0.1
MAX_READ_DELAY_SECONDS = 1.0
UNREADABLE = (transport.UnansweredError, client.APIError, client.BusyError)


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
        self._leader, self._clock = shared.leadership, shared.clock
        self._urgency = shared.urgency
        self._locks = locks.Locks()
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._sent: dict[PodUID, float] = {}

    @property
    def full(self) -> bool:
        """Whether as many Bindings are in flight as may be."""
        return self._slots.locked()

    async def room(self) -> None:
        """Wait until another Binding may be sent."""
        async with self._slots:
            pass

    async def bind(self, asked: wire.BindingArgs) -> str:
        """Bind a pod; the reason of a refusal, empty on success."""
        async with self._locks.of(asked.uid):
            outcome = await self._bind(asked)
        self._metrics.binds.labels(outcome.result).inc()
        if outcome.message:
            LOG.warning("bind %s/%s to %s: %s", asked.namespace, asked.name, asked.node, outcome.message)
        return outcome.message

    async def resolve_leftovers(self) -> None:
        """Find out about Bindings whose replies were lost while the API server could not be read."""
        for uid in [uid for uid in self._sent if uid not in self._locks]:
            async with self._locks.of(uid):
                record, placed = self._ledger.pods.get(uid), self._ledger.reserved.get(uid)
                if record is None or placed is None:
                    self._forget(uid)
                elif uid in self._sent:
                    await self._resolve(record, placed)

    async def _bind(self, asked: wire.BindingArgs) -> Outcome:
        try:
            record = self._ledger.pods.get(asked.uid) or await self._read(asked)
        except UNREADABLE as error:
            return Outcome(Result.REFUSED, f"the pod cannot be read: {error}")
        if record is None:
            return Outcome(Result.REFUSED, "there is no such pod")
        if record.node is not None:
            return _standing(record, asked)
        pinned = self._ledger.reserved.get(record.uid)
        if pinned is not None and record.uid not in self._sent:
            # Bound a moment ago: the watch has yet to show it.
            return _standing(replace(record, node=pinned.node, placement=pinned), asked)
        chosen = self._choose(record, asked)
        if not isinstance(chosen, placement.Placement):
            return Outcome(Result.REFUSED, chosen)
        self._ledger.reserve(record.uid, chosen)
        term = self._leader.served
        async with self._slots:
            with self._urgency.urgent():
                return await self._send(record, chosen, term)

    def _choose(self, record: records.Pod, asked: wire.BindingArgs) -> placement.Placement | str:
        """GPUs of the node on fresh state, the earmarked ones first; or why there are none."""
        policy, pinned = self._ledger.policy, self._ledger.reserved.get(record.uid)
        if policy is None or not policy.places:
            return "there is no PackingPolicy" if policy is None else policy.standstill
        if record.request is None:
            return f"InvalidRequest: {record.invalid or 'the pod asks for no GPU share'}"
        if pinned is not None:
            return pinned if pinned.node == asked.node else f"a Binding to {pinned.node} is not resolved yet"
        return self._place(record.request, asked, policy)

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
        return f"{placed.reason}: {placed.message}" if isinstance(placed, causes.Rejection) else placed

    async def _send(self, record: records.Pod, placed: placement.Placement, term: leadership.Term | None) -> Outcome:
        """POST the Binding, if we still serve in the same term; the reservation stands until its end is known."""
        seconds = self._leader.binding_seconds(term, now=self._clock())
        if seconds < 1.0:
            self._ledger.release(record.uid)
            return Outcome(Result.NOT_LEADING, f"this extender does not lead: {self._leader.describe()}")
        path = pods.pod_path(record.namespace, record.name, "binding")
        earmark = self._ledger.earmarks.get(record.uid)
        self._sent[record.uid] = self._clock()
        self._metrics.binds_in_flight.inc()
        try:
            await self._api.post_once(path, pods.binding(record, placed), timeout_seconds=seconds)
        except transport.UnansweredError as error:
            LOG.warning("bind %s/%s: the reply was lost, reading the pod: %s", record.namespace, record.name, error)
            return await self._resolve(record, placed)
        except (client.ConflictError, client.NotFoundError):
            return await self._resolve(record, placed, refused=True)
        except (client.APIError, client.BusyError) as error:
            self._forget(record.uid)
            return Outcome(Result.REFUSED, str(error))
        finally:
            self._metrics.binds_in_flight.dec()
        self._sent.pop(record.uid, None)
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

    async def _resolve(self, record: records.Pod, placed: placement.Placement, *, refused: bool = False) -> Outcome:
        """Read the pod until it shows what became of the Binding; `refused`: the API server said that nothing did."""
        until = self._sent.get(record.uid, 0.0) + leadership.SETTLE_SECONDS
        asked = wire.BindingArgs(name=record.name, namespace=record.namespace, uid=record.uid, node=placed.node)
        delay = FIRST_READ_DELAY_SECONDS
        while True:
            began = self._clock()
            try:
                now = await self._read(asked)
            except UNREADABLE as error:
                if self._clock() > until + READ_SECONDS:
                    return Outcome(Result.LOST, f"the pod cannot be read: {error}")
            else:
                if now is None:
                    return Outcome(Result.CONFLICT, "the pod is gone")
                if now.node is not None:
                    self._sent.pop(record.uid, None)
                    return _standing(now, asked)
                if refused or began > until:
                    self._forget(record.uid)
                    return Outcome(Result.CONFLICT if refused else Result.LOST, "the Binding did not take effect")
            await self._api.sleep(delay)
            delay = min(2 * delay, MAX_READ_DELAY_SECONDS)

    async def _read(self, asked: wire.BindingArgs) -> records.Pod | None:
        """The pod as the API server has it now; None if that pod is gone."""
        try:
            path = pods.pod_path(asked.namespace, asked.name)
            found = records.pod_record(await self._api.get(path, timeout_seconds=READ_SECONDS))
        except client.NotFoundError:
            found = None
        if found is None or found.uid != asked.uid:
            self._sent.pop(asked.uid, None)
            self._ledger.pod_gone(asked.uid)
            return None
        self._ledger.pod(found, now=self._clock())
        return found

    def _forget(self, uid: PodUID) -> None:
        self._sent.pop(uid, None)
        self._ledger.release(uid)


def _standing(record: records.Pod, asked: wire.BindingArgs) -> Outcome:
    """What a bind of a pod that is bound already answers."""
    if record.node == asked.node and record.placement is not None:
        return Outcome(Result.ALREADY, "")
    where = f"the pod is bound to {record.node}"
    return Outcome(Result.CONFLICT, where if record.node != asked.node else f"{where} without a valid placement")
