"""The leader's loop: takes over, runs the queue when something changed, steps down. It decides nothing itself."""

import asyncio
import contextlib
import functools
import logging
import math
from collections.abc import Sequence

from cotenant_extender import binder, context, feed, later, leadership, takeover, timeline, turns, writer
from cotenant_extender.kube import watches
from cotenant_extender.ledger import drift, overbooked
from cotenant_extender.packing import occupancy, policies
from cotenant_extender.queue import cleanup, passes, planning, reporting, telling

LOG = logging.getLogger(__name__)

TICK_SECONDS = 1.0
DRIFT_SECONDS = 60.0
REPORT_SECONDS = 0.5
TELL_SECONDS = 0.25
"""How often it is looked whose condition is to say that it is placed, again of those that wait to be told."""
REST = 10
MAX_REST_SECONDS = 5.0
"""Who waits is told again after `REST` times what that took the last time, and after this at the latest.

Else telling thousands who wait would be most of what the leader does.
"""
MIN_PAUSE_SECONDS = 0.005
MAX_PAUSE_SECONDS = 0.05
FIRST_CELLS = passes.CELLS_PER_PASS // 64
"""At how many GPUs the first pass under a policy may look."""
PASS_SECONDS = 0.025
"""How long a pass may take before it is cut, and the next made shorter: requests wait for it."""


class Leader:
    """Whether this extender serves, and what the queue does while it serves.

    Attributes:
        teller: says why pods wait.
        freshness: waits until the ledger's fleet is current.
    """

    def __init__(
        self,
        shared: context.Context,
        policy: feed.Policies,
        times: timeline.Timeline,
        *,
        writes: writer.Writer,
        binds: binder.Binder,
    ) -> None:
        self._ledger, self._leading, self._metrics = shared.ledger, shared.leadership, shared.metrics
        self._clock, self._latest, self._stopwatch = shared.clock, shared.latest, shared.stopwatch
        self._policy, self._times, self._writes, self._binds = policy, times, writes, binds
        self._fencing = takeover.TakeOver(shared)
        self.freshness = shared.freshness
        self._changed = asyncio.Event()
        self._passed = self._told = self._report_at = self._chored = self._drift_checked = -math.inf
        self._explained = self._turn = -math.inf
        self._urgency = shared.urgency
        self._cells, self._cells_for = FIRST_CELLS, self._ledger.policy
        self._stopped = False
        self._begin()

    def _begin(self) -> None:
        """Remember nothing: what another decided meanwhile, and the times at which this one did, mean nothing now."""
        self._seen = -1
        self._queue = planning.Queue()
        self._reporter, self._cleaner = reporting.Reporter(self._writes.reports.room), cleanup.Cleaner()
        self.teller = telling.Teller(self._queue)

    @property
    def serving(self) -> bool:
        """Whether verbs are answered; see `leadership`."""
        return self._leading.serves(now=self._latest())

    def changed(self) -> None:
        """Something is new: look at the queue."""
        self._changed.set()

    async def run(self, lists: Sequence[watches.Watch]) -> None:
        """Until stopped. `lists`: what must be listed again before a new leader serves."""
        while not self._stopped:
            self._ledger.tick(now=self._stopwatch())
            self._follow_clock()
            if self._leading.served is not None and not self.serving:
                self.step_down()
            term = self._leading.term
            if term is not None and self._leading.leads(now=self._latest()) and not self.serving:
                await self._take_over(term, lists)
            pause = MIN_PAUSE_SECONDS
            if self.serving:
                await self._prepare()
            if self.serving:
                pause = self._work()
                # Conditions cost as much as a pass: requests are answered in between.
                await asyncio.sleep(0)
                await self.freshness.wait()
            if self.serving:
                await self._report()
            if self.serving:
                self._chores()
            elif self._leading.served is None:
                # Nobody looks at them: a queue begins with all pods.
                self._ledger.touched.clear()
                self._metrics.queue_pods.set(len(self._ledger.index.pending))
            await self._wait(pause)

    def stop(self) -> None:
        """Serve no longer, for good."""
        self._stopped = True
        if self._leading.served is not None:
            self.step_down()
        self.changed()

    def step_down(self) -> None:
        """Serve no longer: another may."""
        LOG.info("steps down: %s", self._leading.describe())
        self._leading.served = None
        self._metrics.nobody_serves()
        self._ledger.end_all_earmarks()
        # Evictions that are under way for this queue end with it.
        self._queue.preemptions.end_all(self._ledger)
        self._ledger.end_all_holds()
        self._ledger.reconsider(self._ledger.hosts.stop())
        self._begin()

    def _follow_clock(self) -> None:
        """Where the wall clock was set, begin anew as a new leader does: what is remembered is by the time before."""
        by = self._times.follow()
        if not by:
            return
        LOG.warning("the clock was set by %+.1f s: begins anew", by)
        self._leading.clock_was_set(by=by)
        if self._leading.served is not None:
            self.step_down()

    async def _take_over(self, term: leadership.Term, lists: Sequence[watches.Watch]) -> None:
        """List what a former leader may have changed, and make what it may have sent ineffective."""
        for watch in lists:
            await watch.listed()
        if not self._may_take_over(term):
            return
        # What the watches brought may be from before this term: a gate that was lifted since, and a Binding after it.
        await _relist(lists)
        self._ledger.earmarks.leader = term.mark
        if not await self._fencing.fence_all(lambda: self._may_take_over(term)):
            return
        await self.freshness.wait()
        await turns.run(takeover.adopting(self._ledger, self._clock))
        if not self._may_take_over(term):
            self._ledger.end_all_earmarks()
            return
        self._binds.doubt(self._ledger.earmarks.unmarked & self._ledger.reserved.keys())
        self._ledger.hosts.tries.start()
        self._leading.served = term
        self._ledger.usage.start(now=self._stopwatch())
        self._drift_checked = -math.inf
        self._metrics.leading.set(1)
        LOG.info("serves: %s", self._leading.describe())

    def _may_take_over(self, term: leadership.Term) -> bool:
        """Return whether it leads in this term, by a policy: else another may have led since the lists were read."""
        leads = term == self._leading.term and self._leading.leads(now=self._latest())
        return leads and not self._stopped and self._ledger.policy is not None

    async def _prepare(self) -> None:
        """Do in steps what would make the next pass long: at the beginning, and under another policy."""
        while self.serving and (policy := self._ledger.policy) is not None:
            if await self._prepared(policy):
                return

    async def _prepared(self, policy: policies.InForce) -> bool:
        """Prepare a pass; return whether it may begin. Another policy in the middle begins anew."""
        queue = self._queue

        def wanted() -> bool:
            return self._queue is queue and self._ledger.policy is policy

        await self.freshness.wait()
        await turns.run(queue.prepare(self._ledger, policy, now=self._clock()), wanted=wanted)
        await self.freshness.wait()
        return wanted()

    def _work(self) -> float:
        """Do what is new; how long to let changes gather before the next time, by what this one cost."""
        policy, began = self._ledger.policy, self._stopwatch()
        if policy is None:
            return MIN_PAUSE_SECONDS
        self._writes.confirm(self._ledger.graves.doubtful.values())
        if began - self._told >= TELL_SECONDS:
            self._told = began
            for report in self._reporter.placed(self._ledger, now=self._clock()):
                self._writes.reports.put(report, self._reporter)
        if self._ledger.version == self._seen and began - self._passed < TICK_SECONDS:
            return MIN_PAUSE_SECONDS
        self._passed = began
        took = self._pass(policy, now=self._clock())
        return min(max(4 * took, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)

    def _pass(self, policy: policies.InForce, *, now: float) -> float:
        """One pass over the queue; what it took, in seconds."""
        began = self._turn = self._stopwatch()
        self._seen = self._ledger.version
        if policy is not self._cells_for:
            # What a look costs under another policy has yet to be seen.
            self._cells, self._cells_for = FIRST_CELLS, policy
        plan = self._queue.plan(self._ledger, policy, now=now, cells=self._cells, late=self._late)
        for lift in plan.lifts:
            self._writes.start(self._writes.lift(lift))
        for record in plan.unheard:
            self._writes.start(self._writes.take_back(record))
        for eviction in plan.evictions:
            self._writes.start(self._writes.evict(eviction, self._queue))
        if plan.cut:
            self._seen = -1
        if self._ledger.version != self._seen:
            self.changed()
        took = self._stopwatch() - began
        self._metrics.pass_seconds.observe(took)
        self._cells = cells_after(self._cells, took=took, cut=plan.cut)
        return took

    def _late(self, part: float) -> bool:
        """Return whether this turn of the event loop, or this part of it, was so long that others go first."""
        return self._stopwatch() - self._turn > part * PASS_SECONDS

    async def _report(self) -> None:
        """Do what is not urgent: conditions, removals, gauges."""
        policy, now, began = self._ledger.policy, self._clock(), self._stopwatch()
        if policy is None or began < self._report_at:
            return
        self._report_at, self._turn = began + REPORT_SECONDS, began
        calm = not self._urgency.many() or began - self._explained >= later.MAX_DELAY_SECONDS
        if calm:
            self._explained = began
        due = self._reporter.waiting(self._ledger, self.teller, now=now, calm=calm, late=self._late)
        for report in due:
            if report is not None:
                self._writes.reports.put(report, self._reporter)
                continue
            await asyncio.sleep(0)
            await self.freshness.wait()
            self._turn = self._stopwatch()
            if self._ledger.policy is not policy or not self.serving:
                return
        for removal in self._cleaner.due(self._ledger, now=now):
            self._writes.start(self._writes.remove(removal))
        waiting = self._queue.line.entries
        self._metrics.queue_pods.set(sum(len(entry.members) for entry in waiting))
        self._metrics.queue_oldest_seconds.set(max(now - min((entry.since for entry in waiting), default=now), 0.0))
        self._metrics.earmarks.set(len(self._ledger.earmarks))
        self._report_at = began + rest_after(self._stopwatch() - began)

    async def _wait(self, pause: float) -> None:
        """Let changes gather, then wait for one, or for the next tick."""
        await asyncio.sleep(pause)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                await self._changed.wait()
        self._changed.clear()

    def _chores(self) -> None:
        """See to what is looked at once in a while, however much else there is to do."""
        now = self._stopwatch()
        if now - self._chored < TICK_SECONDS:
            return
        self._chored = now
        self._ledger.usage.advance(now=now)
        self._metrics.used(self._ledger.usage)
        if self._ledger.policy is not None and self._ledger.behind <= turns.FEW:
            self._metrics.occupied(occupancy.occupancy(self._ledger.seen()))
        self._writes.start_once("leftovers", self._binds.resolve_leftovers)
        if now - self._drift_checked >= DRIFT_SECONDS:
            self._drift_checked = now
            self._writes.start_once("drift", self._check_drift)
        raw, error = self._policy.raw, self._policy.error
        if raw is not None:
            self._writes.start_once("policy", functools.partial(self._writes.policy_status, raw, error))

    async def _check_drift(self) -> None:
        """Recount the ledger, in steps between which everything else goes on."""
        steps = drift.recount(self._ledger)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: list[str] = end.value
                break
            await asyncio.sleep(0)
            await self.freshness.wait()
        await self._tell_overbooked()
        self._metrics.ledger_drift.set(len(found))
        self._metrics.ledger_recounts.inc()
        for line in found:
            LOG.error("ledger drift: %s", line)

    async def _tell_overbooked(self) -> None:
        """Say which GPUs are booked beyond what they have; the rules let nobody more on them."""
        found = await turns.run(overbooked.overbooked(self._ledger)) or []
        self._metrics.overbooked_gpus.set(len(found))
        for gpu in found:
            LOG.error("%s of node %s is overbooked: %s", gpu.uuid, gpu.node, gpu.excess)


def rest_after(took: float) -> float:
    """Return how long after its beginning a report is followed by the next, by the seconds that it took."""
    return max(REPORT_SECONDS, min(REST * took, MAX_REST_SECONDS))


def cells_after(cells: int, *, took: float, cut: bool) -> int:
    """Return at how many GPUs the next pass may look, after one that could look at `cells` and took so many seconds.

    What a look costs depends on placement, policy and machine. A pass that was too long is followed by shorter ones;
    after short ones the number grows again.
    """
    if took > PASS_SECONDS:
        return max(int(cells * PASS_SECONDS / took), 1) if cut else cells
    return min(max(2 * cells, 1), passes.CELLS_PER_PASS)


async def _relist(lists: Sequence[watches.Watch]) -> None:
    """List all again, and wait until each list was delivered."""
    for watch in lists:
        await watch.relist()
