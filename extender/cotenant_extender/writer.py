"""What the leader writes to the API server besides Bindings: gates, conditions, removals, events, policy status.

It also reads what its decisions wait for. Each request is one task. Each kind of request has slots of its own, which
namespaces share (see `slots`): a webhook that hangs delays no other kind, and no other namespace. A failure is told to
whoever decides again: the ledger, the reporter or the cleaner.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any

from cotenant_api import conditions, errors
from cotenant_api.names import NodeName
from cotenant_extender import context, evicting, fencing, leadership, policystatus, records, reports, slots
from cotenant_extender.kube import client, pods, transport
from cotenant_extender.ledger import earmarks
from cotenant_extender.queue import cleanup, earmarking, planning, preempting, showing

LOG = logging.getLogger(__name__)

LIFTS = 96
REMOVALS = 32
READS = 16
FINISH_SECONDS = 5.0
LIFT_ATTEMPTS = 3
"""How often a pod that changes meanwhile is lifted, before it is decided on anew."""

Object = dict[str, Any]


class Writer:
    """Carries out decisions.

    Attributes:
        evictions: who carries out those.
        reports: who writes conditions.
    """

    def __init__(self, shared: context.Context) -> None:
        self._ledger, self._api, self._metrics = shared.ledger, shared.api, shared.metrics
        self._leading, self._latest = shared.leadership, shared.latest
        self._clock, self._stopwatch = shared.clock, shared.stopwatch
        self._lifts, self._removals = slots.Slots(LIFTS), slots.Slots(REMOVALS)
        self._reads = asyncio.Semaphore(READS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._once: set[str] = set()
        self._urgency, self._fences = shared.urgency, fencing.Fences(shared)
        self.reports = reports.Reports(shared, self.start)
        self.evictions = evicting.Evictions(shared, self._fences, say=self._say)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a write."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def start_once(self, key: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin something, unless what began under this key is still under way."""
        if key not in self._once:
            self._once.add(key)
            self.start(self._releasing(key, work))

    async def finish(self) -> None:
        """Wait for what is under way, at most `FINISH_SECONDS`: whoever leads next finds the rest on the pods."""
        self.reports.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FINISH_SECONDS)

    async def lift(self, lift: earmarking.Lift) -> None:
        """Lift a gate together with its earmark, if any, or renew the earmark of a pod that has no gate.

        What took too long for its turn is not written: the earmark ends, and the queue decides anew.
        """
        term = self._leading.served
        async with self._turn(self._lifts, lift.record, seconds=earmarks.UNTRIED_SECONDS) as due:
            standing = self._serves(term) and self._ledger.earmarks.get(lift.record.uid) is lift.earmark
            if due and standing:
                try:
                    await self._lift(lift)
                except Exception:
                    # Nothing else ends an earmark that is not on its pod.
                    self._set_back(lift)
                    raise
                return
        self._set_back(lift)
        self._metrics.lifts.labels(lift.kind, "failed" if standing else "gone").inc()

    async def _lift(self, lift: earmarking.Lift) -> None:
        record, kind = lift.record, lift.kind
        result = "ok"
        try:
            with self._urgency.urgent():
                if not record.gates and fencing.foreign(record, self._ledger.earmarks):
                    await self._fences.confirm_term()
                metadata = await self._lifted(lift, record)
        except (client.NotFoundError, client.ConflictError):
            # That pod is gone, perhaps replaced by another of its name, or somebody else decides on it.
            result = "gone"
            if self._ledger.earmarks.get(record.uid) is lift.earmark:
                self._ledger.end_earmark(record.uid)
        except (client.APIError, errors.TemporaryError) as error:
            result = "failed"
            LOG.warning("lifting %s/%s: %s", record.namespace, record.name, error)
            await self._end_unless_lifted(lift)
        else:
            known = self._ledger.pods.get(record.uid, record)
            self._ledger.pod(records.lifted(known, metadata), now=self._clock())
            if kind == "scale-up":
                self._metrics.scale_up_lifts.inc()
            self._metrics.queue_wait_seconds.observe(max(self._clock() - record.since, 0.0))
        self._metrics.lifts.labels(kind, result).inc()

    async def _lifted(self, lift: earmarking.Lift, record: records.Pod, *, attempts: int = LIFT_ATTEMPTS) -> Object:
        """Lift a pod as it was last seen, or as it is, unless somebody else decided on it meanwhile; its metadata.

        Raises:
            ConflictError: somebody did, or it changed each time.
        """
        path = pods.pod_path(record.namespace, record.name)
        try:
            if lift.earmark is not None and record.reported:
                record = await self._without_report(record)
            change = pods.lift(record, lift.earmark)
            return await self._api.patch_briefly(path, change, content_type=transport.STRATEGIC_MERGE_PATCH)
        except client.ConflictError:
            raw = await self._api.get(path)
            found = records.pod_record(raw)
            if found.uid != record.uid:
                raise
            self._ledger.pod(found, now=self._clock())
            if not found.gates and found.earmark == earmarking.wanted(lift):
                # The reply to an earlier try was lost.
                metadata: Object = raw["metadata"]
                return metadata
            if attempts == 1 or not self._stands(lift, found):
                raise
        return await self._lifted(lift, found, attempts=attempts - 1)

    def _stands(self, lift: earmarking.Lift, found: records.Pod) -> bool:
        """Return whether a lift that was decided on is still to be done to a pod as it is now."""
        record = lift.record
        same = (found.gates, found.earmark, found.node) == (record.gates, record.earmark, record.node)
        promised = self._ledger.earmarks.get(record.uid) is lift.earmark
        return same and promised and not found.deleting and self._leading.serves(now=self._latest())

    async def take_back(self, record: records.Pod) -> None:
        """Take kube-scheduler's report of a pod back, so that its next try writes one that is heard.

        Where it fails, or took too long for its turn, the queue asks again.
        """
        term = self._leading.served
        try:
            async with self._turn(self._lifts, record, seconds=showing.LIFT_SECONDS) as due:
                if due and self._serves(term):
                    await self._without_report(record)
        except (client.NotFoundError, client.ConflictError):
            return
        except (client.APIError, errors.TemporaryError) as error:
            LOG.warning("taking back the report of %s/%s: %s", record.namespace, record.name, error)

    def _serves(self, term: leadership.Term | None) -> bool:
        """Return whether this extender still serves in the term in which something was decided."""
        return self._leading.served is term and self._leading.serves(now=self._latest())

    async def _without_report(self, record: records.Pod) -> records.Pod:
        """Take a report back, and note the pod as it is then."""
        path, change = pods.pod_path(record.namespace, record.name, "status"), pods.report_taken_back(record)
        metadata = await self._api.patch_briefly(path, change, content_type=transport.STRATEGIC_MERGE_PATCH)
        found = records.unreported(record, metadata)
        self._ledger.pod(found, now=self._clock())
        return found

    async def evict(self, eviction: preempting.Eviction, queue: planning.Queue) -> None:
        """Evict the victims of a job, those of one namespace beside those of others."""
        first = eviction.victims[0].namespace if eviction.victims else eviction.preemptor.namespace
        async with self._removals.of(first):
            await self.evictions.evict(eviction, queue)

    async def remove(self, removal: cleanup.Removal) -> None:
        """Evict or delete a pod, with an event. What took too long for its turn is asked for again.

        What an agent no longer asks for by then is not done.
        """
        async with self._turn(self._removals, removal.record, seconds=cleanup.RETRY_SECONDS) as due:
            if due and cleanup.stands(self._ledger, removal):
                await self._remove(removal)

    async def _remove(self, removal: cleanup.Removal) -> None:
        record = removal.record
        try:
            result = await (self.evictions.leave(record) if removal.evict else self._delete(record))
        except client.BudgetError as error:
            LOG.info("%s/%s may not be evicted now: %s", record.namespace, record.name, error)
            result = "refused"
        self._metrics.removals.labels(removal.reason, result).inc()
        if result == "ok":
            LOG.warning("removed %s/%s: %s", record.namespace, record.name, removal.message)
            await self._say(record, reason=removal.reason, message=removal.message)

    def confirm(self, nodes: Iterable[NodeName]) -> None:
        """Read GPUNodes on which it depends whether pods that are gone have ended."""
        for name in dict.fromkeys(nodes):
            self.start_once(f"gpunode {name}", functools.partial(self._read_gpunode, name))

    async def policy_status(self, raw: Object, error: errors.InvalidInputError | None) -> None:
        """Say which generation of the policy is in force."""
        status = policystatus.wanted(raw, error, in_force=self._ledger, now=datetime.fromtimestamp(self._clock(), UTC))
        if status is None:
            return
        try:
            await self._api.patch(pods.POLICY_STATUS, {"status": status}, content_type=transport.MERGE_PATCH)
        except (client.APIError, errors.TemporaryError) as failure:
            LOG.warning("status of the PackingPolicy: %s", failure)

    async def _delete(self, record: records.Pod) -> str:
        """Delete a pod, if it is as it was last seen; what came of it."""
        try:
            await self._api.delete(pods.pod_path(record.namespace, record.name), pods.deletion(record))
        except (client.APIError, errors.TemporaryError) as error:
            LOG.warning("deleting %s/%s: %s", record.namespace, record.name, error)
            return "failed"
        return "ok"

    async def _say(self, record: records.Pod, *, reason: str, message: str) -> None:
        """Write an event that nothing depends on."""
        try:
            await self._event(record, reason=reason, message=message)
        except (client.APIError, errors.TemporaryError) as error:
            LOG.warning("event on %s/%s: %s", record.namespace, record.name, error)

    async def _end_unless_lifted(self, lift: earmarking.Lift) -> None:
        """End the earmark, unless it stands on the pod: the patch may have been applied. Another's is left alone."""
        record = lift.record
        try:
            found = await self._api.get(pods.pod_path(record.namespace, record.name))
        except (client.APIError, errors.TemporaryError) as error:
            LOG.warning("reading %s/%s: %s", record.namespace, record.name, error)
        else:
            seen = records.pod_record(found)
            self._ledger.pod(seen, now=self._clock())
            if seen.uid == record.uid and lift.earmark is not None and earmarks.bears(seen, lift.earmark):
                return
        self._set_back(lift)

    def _set_back(self, lift: earmarking.Lift) -> None:
        """End the earmark of a lift that was not carried out, as a setback of its pod. Another's is left alone."""
        uid = lift.record.uid
        if lift.earmark is not None and self._ledger.earmarks.get(uid) is lift.earmark:
            self._ledger.end_earmark(uid, now=self._clock())

    async def _read_gpunode(self, name: NodeName) -> None:
        async with self._reads:
            await self._read_gpunode_now(name)

    async def _read_gpunode_now(self, name: NodeName) -> None:
        gone, known = self._ledger.graves.doubtful_on(name), self._ledger.agent(name)
        try:
            found = await self._api.get(f"{pods.GPUNODES}/{name}")
            if self._ledger.offers(name):
                self._ledger.gpunode(records.gpunode_record(found), now=self._stopwatch(), tells_of=gone)
        except client.NotFoundError:
            # One that the watch brought meanwhile was made since: it is asked again.
            if self._ledger.agent(name) is known:
                self._ledger.gpunode_gone(name, tells_of=gone)
        except (client.APIError, errors.CotenantError) as error:
            LOG.warning("reading GPUNode %s: %s", name, error)

    async def _event(self, record: records.Pod, *, reason: str, message: str) -> None:
        body = pods.event(record, reason=reason, message=message, now=self._time())
        # It is there already where the reply to an earlier try was lost.
        with contextlib.suppress(client.ConflictError):
            await self._api.post(pods.events_path(record.namespace), body)

    def _time(self) -> str:
        return conditions.timestamp(datetime.fromtimestamp(self._clock(), UTC))

    async def _releasing(self, key: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        finally:
            self._once.discard(key)

    @contextlib.asynccontextmanager
    async def _turn(self, of: slots.Slots, record: records.Pod, *, seconds: float) -> AsyncIterator[bool]:
        """Hold a slot of a pod's namespace; False: it took so many seconds that what was decided is outdated."""
        asked = self._stopwatch()
        async with of.of(record.namespace):
            yield self._stopwatch() - asked < seconds

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.error("a write failed", exc_info=task.exception())
