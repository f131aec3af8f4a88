"""The loop: take a DLJob that is due, look at it, decide, do it. One worker holds a DLJob at a time.

Nothing is kept here that a restart would miss: the time of the last write only saves requests.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import errors, names
from cotenant_operator import reasons
from cotenant_operator.kube import api
from cotenant_operator.life import reconcile
from cotenant_operator.loop import events, executor, observing, pace, waits, yielding
from cotenant_operator.loop.clock import Clock
from cotenant_operator.loop.workqueue import WorkQueue
from cotenant_operator.parsing import process
from cotenant_operator.plans import actions
from cotenant_operator.plans.stages import Plan
from cotenant_operator.state.observed import Observed, Part
from cotenant_operator.state.store import Keys, Store
from cotenant_operator.state.views import Key
from cotenant_operator.telling import metrics, status

_LOGGER = logging.getLogger(__name__)

WORKERS: Final = 32
UNWATCHED_SECONDS: Final = 30.0
"""How often a workload is read of which no watch tells."""
TOLD_AFTER: Final = 4
"""Failures in a row after which a DLJob's status says so: some seconds."""
MAX_ASIDE: Final = 512
"""Workers that wait until a graph is read, in whose place others work."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to work.

    Attributes:
        release: the namespace of the release, where measurements are kept.
        urgent_seconds: least time between two writes of a status.
        leads: whether it may act. While it may not, what there is to do is left to who does.
    """

    release: str = names.RELEASE_NAMESPACE
    urgent_seconds: float = pace.URGENT_SECONDS
    leads: Callable[[], bool] = lambda: True


DEFAULTS: Final = Options()


class Controller:
    """Reconciles DLJobs.

    Args:
        store: what is known of the cluster.
        client: asks the API server.
        parser: reads graphs and predicts.
        clock: tells the time.
        options: how to work.

    Attributes:
        metrics: what is counted.
    """

    def __init__(
        self,
        *,
        store: Store,
        client: api.API,
        parser: process.Parser,
        clock: Clock,
        options: Options = DEFAULTS,
    ) -> None:
        self.store = store
        self.metrics = metrics.Metrics()
        self._unobserved = waits.Waits(waits.unobserved)
        self._not_started = waits.Waits(waits.not_started, pauses=waits.is_not_ready)
        self._lost = waits.Waits(waits.lost)
        self._clock, self._leads = clock, options.leads
        self._executor = executor.Executor(client, store, now=clock.now, tell=self.enqueue)
        self._events = events.Events(self._executor.emit, monotonic=clock.monotonic)
        self._yielding = yielding.Yielding(
            client,
            monotonic=clock.monotonic,
            tell=self._events.send,
            count=lambda kind: self.metrics.contests.labels(kind.value).inc(),
        )
        self._observer = observing.Observer(
            store=store,
            client=client,
            parser=parser,
            clock=clock,
            context=observing.Context(self._executor, self._aside, options.release),
        )
        self.keeper = self._observer.keeper
        self._queue = WorkQueue()
        self._wake = asyncio.Event()
        self._begun = self._stopping = False
        self._working = self._beside = 0
        self._pace = pace.Pace(urgent_seconds=options.urgent_seconds)
        self.metrics.ask(
            metrics.Sources(
                due=lambda: self._queue.count_due(clock.monotonic()),
                unobserved=lambda: self._unobserved.longest(now=clock.monotonic()),
                not_started=lambda: self._not_started.longest(now=clock.monotonic()),
                lost=lambda: self._lost.longest(now=clock.monotonic()),
                unread=store.count_unread,
                phases=lambda: store.phases() if options.leads() else {},
                leading=options.leads,
            )
        )

    @property
    def queued(self) -> int:
        """DLJobs that are due, waiting for their time, or being worked on."""
        return len(self._queue)

    def enqueue(self, keys: Keys) -> None:
        """Have DLJobs looked at now. `run` begins with all of them."""
        if not self._begun and not self._leads():
            return
        now = self._clock.monotonic()
        for key in keys:
            self._note(key, now=now)
            self._queue.add(key, at=now)
        if keys:
            self._wake.set()

    def stop(self) -> None:
        """Let `run` end when the actions that are being done are done."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`; on WORKERS DLJobs at the same time, each in its own task."""
        self._begun = True
        self.enqueue(self.store.keys())
        async with asyncio.TaskGroup() as group:
            while not self._stopping:
                while self._working < WORKERS and (key := self._take()) is not None:
                    self._working += 1
                    group.create_task(self._work(key))
                await self._woken()

    async def process_due(self) -> bool:
        """Look at one DLJob that is due; whether there was one."""
        key = self._take()
        if key is None:
            return False
        await self._look_at(key)
        return True

    async def _work(self, key: Key) -> None:
        try:
            await self._look_at(key)
        finally:
            self._working -= 1
            self._wake.set()

    async def _woken(self) -> None:
        """Wait until something is due, has come, or a worker is free."""
        delay = self._queue.due_in(self._clock.monotonic()) if self._working < WORKERS else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), timeout=delay)
        self._wake.clear()

    def _take(self) -> Key | None:
        return self._queue.take(self._clock.monotonic())

    async def _look_at(self, key: Key) -> None:
        began = self._clock.monotonic()
        result = await self._result_of(key)
        self.metrics.reconciles.labels(result.value).inc()
        self.metrics.reconcile_seconds.observe(self._clock.monotonic() - began)
        self._note(key, now=self._clock.monotonic())

    def _note(self, key: Key, *, now: float) -> None:
        """Take in what a DLJob waits for."""
        job = self.store.dljob(key)
        for kept in (self._unobserved, self._not_started, self._lost):
            kept.note(key, job, now=now)

    async def _result_of(self, key: Key) -> metrics.Result:
        """Look at a DLJob, and have it looked at again if that failed."""
        try:
            await self._process(key)
        except errors.TemporaryError as error:
            self._retry(key, str(error), delay_seconds=error.delay_seconds)
            return metrics.Result.AGAIN
        except (api.ConflictError, api.NotFoundError) as error:
            self._retry(key, str(error))
            return metrics.Result.AGAIN
        except api.APIError as error:
            await self._tell_failure(key, f"the API server refuses what is to be done: {error}")
            self._retry(key, str(error))
            return metrics.Result.REFUSED
        except Exception as error:
            _LOGGER.debug("%s: a fault of the operator", key, exc_info=True)
            await self._tell_failure(key, f"a fault of the operator ({type(error).__name__}): its log says more")
            self._retry(key, f"a fault of the operator: {error!r}")
            return metrics.Result.FAULT
        if self.store.unwatched(key):
            self._queue.add(key, at=self._clock.monotonic() + UNWATCHED_SECONDS)
        self._queue.done(key)
        return metrics.Result.DONE

    async def _process(self, key: Key) -> None:
        found = await self._observer.gathered(key)
        if found is None:
            self._pace.forget(key)
            self._events.forget(key)
            self._yielding.forget(key)
            return
        observed = found.observed
        self.keeper.look_at(observed)
        plan = reconcile.reconcile(observed, self._clock.now())
        if found.unfenced is not None and not _only_tells(plan):
            # What a status says is so whatever an earlier patch does. All else waits.
            raise found.unfenced
        try:
            plan, due = await self._yielding.due(key, observed.job, plan)
            if due is not None:
                self._queue.add(key, at=due)
            await self._do(key, plan, observed)
        except executor.Refused as error:
            _LOGGER.warning("%s: %s: %s", key, error.reason, error)
            stood = observed.standing_refusal(self._clock.now(), error.part)
            self._observer.refuse(observed, error)
            # What was decided in spite of the same refusal would be decided again at once.
            again = stood is not None and stood.message == str(error)
            self._queue.add(key, at=self._clock.monotonic() + (error.retry_seconds if again else 0.0))

    @contextlib.contextmanager
    def _aside(self, namespace: str) -> Iterator[None]:
        """Let another worker work while this one waits: many graphs of one namespace hold up nobody else."""
        steps = 1 if self._beside < MAX_ASIDE else 0
        self._beside += steps
        self._working -= steps
        self._queue.set_aside(namespace, steps)
        self._wake.set()
        try:
            yield
        finally:
            self._beside -= steps
            self._working += steps
            self._queue.set_aside(namespace, -steps)

    async def _do(self, key: Key, plan: Plan, observed: Observed) -> None:
        failed: list[api.APIError | errors.TemporaryError] = []
        for action in plan.actions if self._may_tell(key, plan) else ():
            if not _is_vain(action, failed):
                try:
                    await self._act(key, action, generation=observed.job.meta.generation)
                except (api.APIError, errors.TemporaryError) as error:
                    if not actions.is_beside(action):
                        raise
                    failed.append(self._lasting(key, action, error))
        await self._send_again(key)
        for other in failed[1:]:
            if isinstance(other, executor.Refused):
                self._observer.refuse(observed, other)
        if failed:
            raise failed[0]
        if plan.retry_at is not None:
            seconds = (plan.retry_at - self._clock.now()).total_seconds()
            self._queue.add(key, at=self._clock.monotonic() + max(seconds, 0.0))
            self._wake.set()

    def _lasting(
        self, key: Key, action: actions.Action, error: api.APIError | errors.TemporaryError
    ) -> api.APIError | errors.TemporaryError:
        """Return why an action failed.

        A Service, or a run, whose writes go on failing is told of, and keeps no status waiting.
        """
        passes = not isinstance(error, errors.TemporaryError) or self._queue.failures(key) + 1 < TOLD_AFTER
        part, seconds = actions.part(action), executor.QUOTA_RETRY_SECONDS
        if passes or part is Part.WORKLOAD:
            return error
        if part is Part.SERVICE:
            message = f"the Service cannot be written: {error}"
            return executor.Refused(reasons.SERVICE_FAILED, message, retry_seconds=seconds, part=part)
        return executor.Refused(
            reasons.RECONCILE_ERROR, f"it cannot be written: {error}", retry_seconds=seconds, part=part
        )

    async def _act(self, key: Key, action: actions.Action, *, generation: int) -> None:
        if isinstance(action, actions.EmitEvent):
            await self._events.send(key, action)
        else:
            done = await self._executor.execute(key, action)
            if done:
                self._yielding.wrote(key, action, generation=generation)
        self._count(key, action)
        if not isinstance(action, actions.PatchStatus):
            _LOGGER.info("%s: %s", key, actions.describe(action))

    def _count(self, key: Key, action: actions.Action) -> None:
        """Count what an action that was done means."""
        if isinstance(action, actions.Create) and action.after is not None:
            self.metrics.restarts.labels(action.after.value).inc()
        elif isinstance(action, actions.PatchStatus) and "conditions" in action.status:
            # Conditions are written with the end, and none after it.
            job = self.store.dljob(key)
            if job is not None and job.finished is not None:
                self.metrics.finished.labels(job.finished.reason).inc()

    async def _send_again(self, key: Key) -> None:
        """Send the events that were not taken, and look again when the next try is due."""
        await self._events.send_again(key)
        due = self._events.due(key)
        if due is not None:
            self._queue.add(key, at=due)
            self._wake.set()

    def _may_tell(self, key: Key, plan: Plan) -> bool:
        """Return whether a plan that only tells is done now; else it is looked at again when its time has come."""
        telling = next((action for action in plan.actions if isinstance(action, actions.PatchStatus)), None)
        if telling is None:
            return True
        now = self._clock.monotonic()
        due = self._pace.due(key, now, urgent=telling.urgent)
        if now >= due or not _only_tells(plan) or telling.keeps:
            self._pace.wrote(key, now)
            return True
        self._queue.add(key, at=due)
        self._wake.set()
        return False

    async def _tell_failure(self, key: Key, message: str) -> None:
        """Say in the status of a DLJob that the work on it fails, once that is no passing thing."""
        job = self.store.dljob(key)
        if job is None or job.finished is not None or job.status_problem is not None:
            return
        if self._queue.failures(key) + 1 < TOLD_AFTER:
            return
        try:
            change = status.faulted(job, message, self._clock.now())
            if change["conditions"] == job.written.get("conditions"):
                return
            action = actions.PatchStatus(uid=job.meta.uid, version=job.meta.version, status=change, urgent=True)
            await self._executor.execute(key, action)
        except Exception as error:
            # What fails here may be what failed before: it ends nothing.
            _LOGGER.debug("%s: a fault in the telling", key, exc_info=True)
            _LOGGER.warning("%s: the condition Stalled is not written: %r", key, error)

    def _retry(self, key: Key, message: str, *, delay_seconds: float = 0.0) -> None:
        now = self._clock.monotonic()
        delay = self._queue.failed(key, now=now, delay_seconds=delay_seconds)
        _LOGGER.warning("%s: tried again in %.1f s: %s", key, delay, message)
        self._wake.set()


def _only_tells(plan: Plan) -> bool:
    """Return whether a plan writes nothing but the status and events."""
    return all(isinstance(action, actions.EmitEvent | actions.PatchStatus) for action in plan.actions)


def _is_vain(action: actions.Action, failed: Sequence[Exception]) -> bool:
    """Return whether an action is of no use after others of its plan have failed.

    That they fail will be told: a status that does not would change back and forth. A quota that refused one run has no
    room for another.
    """
    if isinstance(action, actions.PatchStatus):
        return bool(failed) and not action.keeps
    full = any(isinstance(error, executor.Refused) and error.reason == reasons.QUOTA_EXCEEDED for error in failed)
    return full and isinstance(action, actions.Create)
