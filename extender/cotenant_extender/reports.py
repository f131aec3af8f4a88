"""Write the conditions that say where pods are or why they wait, and the events that tell it, too.

Each pod has at most one report under way, and each namespace `PER_NAMESPACE`, those included that wait for a slot. What
else is to be told is not kept: whoever decides what to tell asks `Reports.room` first, and looks anew when there is.
"""

import functools
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

from cotenant_api import conditions, errors
from cotenant_api.names import Namespace, PodUID
from cotenant_extender import context, later, records, slots
from cotenant_extender.kube import client, pods, transport
from cotenant_extender.queue import reporting

LOG = logging.getLogger(__name__)

IN_FLIGHT = 32
PER_NAMESPACE = 128
OUTDATED_SECONDS = reporting.INTERVAL_SECONDS
"""Why a pod waits is found out anew where a report on it has waited so long for a slot."""


class Reports:
    """Reports that are under way.

    Args:
        start: begins a write.
    """

    def __init__(self, shared: context.Context, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._ledger, self._api, self._start = shared.ledger, shared.api, start
        self._clock, self._stopwatch = shared.clock, shared.stopwatch
        self._leading, self._latest = shared.leadership, shared.latest
        self._slots = slots.Slots(IN_FLIGHT, part=3)
        self._later = later.Later(shared.urgency, shared.stopwatch)
        self._under_way: dict[Namespace, set[PodUID]] = {}

    def room(self, record: records.Pod) -> bool:
        """Return whether a report on a pod may be put now."""
        under_way = self._under_way.get(record.namespace, ())
        return record.uid not in under_way and len(under_way) < PER_NAMESPACE

    def put(self, report: reporting.Report, reporter: reporting.Reporter) -> None:
        """Begin to write a report; that a pod is placed can wait until others are."""
        self._under_way.setdefault(report.record.namespace, set()).add(report.record.uid)
        self._start(self._written(report, reporter))

    def stop(self) -> None:
        """Forget what can wait and has not begun."""
        self._later.stop()

    async def _written(self, report: reporting.Report, reporter: reporting.Reporter) -> None:
        record, since = report.record, self._stopwatch()
        try:
            async with self._turn(report) as begins:
                if begins is not False and self._stands(report, reporter, waited=self._stopwatch() - since):
                    await self._write(report, reporter)
        finally:
            under_way = self._under_way[record.namespace]
            under_way.discard(record.uid)
            if not under_way:
                del self._under_way[record.namespace]

    def _turn(self, report: reporting.Report) -> AbstractAsyncContextManager[bool | None]:
        namespace = report.record.namespace
        return self._later.turn(namespace) if report.placed else self._slots.of(namespace)

    def _stands(self, report: reporting.Report, reporter: reporting.Reporter, *, waited: float) -> bool:
        """Return whether a report is still to be written; where its pod has changed, it is found out anew what is."""
        record = report.record
        if not self._leading.serves(now=self._latest()):
            # Whoever serves now tells.
            return False
        if report.placed:
            return record.uid in self._ledger.index.unreported
        known = self._ledger.pods.get(record.uid)
        if known is None:
            return False
        if known.pending and record.uid not in self._ledger.reserved and waited < OUTDATED_SECONDS:
            return True
        reporter.failed(report, now=self._clock())
        return False

    async def _write(self, report: reporting.Report, reporter: reporting.Reporter) -> None:
        """Write a condition. Why a pod waits is also told by an event, where the report says so."""
        record = report.record
        path = pods.pod_path(record.namespace, record.name, "status")
        try:
            change = pods.condition(report, now=self._time())
            await self._api.patch_briefly(path, change, content_type=transport.STRATEGIC_MERGE_PATCH)
            if report.times:
                await self._explain(report)
        except (client.NotFoundError, client.ConflictError):
            return
        except (client.APIError, errors.TemporaryError) as error:
            LOG.warning("condition of %s/%s: %s", record.namespace, record.name, error)
            reporter.failed(report, now=self._clock())

    async def _explain(self, report: reporting.Report) -> None:
        """Tell why a pod waits: by a new event, or by the same one again. Nothing depends on it."""
        value = pods.waiting_event(report, now=self._time())
        path = pods.events_path(report.record.namespace)
        again = functools.partial(
            self._api.patch,
            f"{path}/{value['metadata']['name']}",
            pods.told_again(value),
            content_type=transport.MERGE_PATCH,
        )
        tell = functools.partial(self._api.post, path, value)
        # An event told before a restart is there already; one told long ago has expired.
        first, other, mistaken = (
            (tell, again, client.ConflictError) if report.times == 1 else (again, tell, client.NotFoundError)
        )
        try:
            try:
                await first()
            except mistaken:
                await other()
        except (client.APIError, errors.TemporaryError) as error:
            LOG.warning("event on %s/%s: %s", report.record.namespace, report.record.name, error)

    def _time(self) -> str:
        return conditions.timestamp(datetime.fromtimestamp(self._clock(), UTC))
