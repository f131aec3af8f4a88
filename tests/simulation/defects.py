"""Extenders with a planted defect each: the simulation must tell them from a right one.

A defect is a subclass that is put in the place of a part's class, after the extender was built.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from cotenant_api import placement
from cotenant_api.names import PodUID
from cotenant_extender import binder, evicting, fencing, leader, leadership, records, service, slots, takeover, writer
from cotenant_extender.kube import client, pods, transport
from cotenant_extender.ledger import graves, ledger
from cotenant_extender.queue import cleanup, earmarking, memory, planning, preempting
from extender import defective

LOG = logging.getLogger(__name__)


class _LeadsForEver(leadership.Leadership):
    """Once it has led, it goes on."""

    _led = False

    def remaining_seconds(self, *, now: float) -> float:
        found = super().remaining_seconds(now=now)
        self._led = self._led or found > 0
        return 15.0 if self._led else found

    @property
    def term(self) -> leadership.Term | None:
        return self.served or super().term


class _ReservesNothing(ledger.Ledger):
    """Forgets the Bindings that are in flight."""

    def reserve(self, uid: PodUID, placed: placement.Placement) -> None:
        LOG.info("%s is bound to %s, and not counted", uid, placed.node)


class _BelievesDeletions(graves.Graves):
    """A pod that is gone has ended."""

    def vanished(self, record: records.Pod, *, listed: bool) -> None:
        super().vanished(record, listed=listed)
        del self.pods[record.uid]


class _GivesUpEarly(binder.Binder):
    """A Binding without reply did not happen, and what was promised is free again."""

    async def _resolve(self, record: records.Pod, *, patience_seconds: float = binder.PATIENCE_SECONDS) -> str | None:
        del patience_seconds
        self._forget(record.uid)
        self._ledger.end_earmark(record.uid)
        return "no reply"


class _BelievesInTime(fencing.Fences):
    """What was not carried out within some seconds never will be."""

    async def settled(self, record: records.Pod, *, version: int) -> records.Pod | None:
        del version
        await asyncio.sleep(5.0)
        return await self.read(record.namespace, record.name, record.uid)


class _FencesNothing(takeover.TakeOver):
    """A former leader has nothing under way."""

    async def fence_all(self, still: Callable[[], bool]) -> bool:
        return still()


class _WaitsForAll(takeover.TakeOver):
    """A pod that cannot be marked is waited for."""

    async def _fence(self, record: records.Pod, turns: slots.Slots) -> PodUID | None:
        found = await super()._fence(record, turns)
        return None if record.uid in self._ledger.earmarks.unmarked else found


class _MissesEnds(ledger.Ledger):
    """Pods that succeeded count on."""

    def pod(self, record: records.Pod, *, now: float) -> None:
        if record.phase != "Succeeded":
            super().pod(record, now=now)


class _LeavesTheUnplaced(cleanup.Cleaner):
    """Bound pods without placement stay."""

    def due(self, source: ledger.Ledger, *, now: float) -> list[cleanup.Removal]:
        del source, now
        return []


class _Untidy(leader.Leader):
    """It removes nothing, in every term."""

    async def _report(self) -> None:
        self._cleaner.__class__ = _LeavesTheUnplaced
        await super()._report()


class _LiftsOverMarks(writer.Writer):
    """Lifts whatever a pod is by then, and asks nobody who leads."""

    async def _lifted(self, lift: earmarking.Lift, record: records.Pod, *, attempts: int = 1) -> Any:
        change = pods.lift(record, lift.earmark)
        change["metadata"] = {key: value for key, value in change["metadata"].items() if key != "resourceVersion"}
        path = pods.pod_path(record.namespace, record.name)
        LOG.info("lifts %s, attempt %d", record.name, attempts)
        return await self._api.patch_briefly(path, change, content_type=transport.STRATEGIC_MERGE_PATCH)


class _EvictsBlindly(evicting.Evictions):
    """What a budget keeps is deleted."""

    async def leave(self, victim: records.Pod) -> str:
        try:
            return await super().leave(victim)
        except client.BudgetError:
            record = self._ledger.pods[victim.uid]
            await self._api.delete(pods.pod_path(record.namespace, record.name), pods.deletion(record))
            return "ok"


class _AsksAgainAtOnce(evicting.Evictions):
    """What a budget keeps is asked again in the next pass."""

    async def leave(self, victim: records.Pod) -> str:
        try:
            return await super().leave(victim)
        except client.BudgetError:
            return "changed"


class _EvictsOneByOne(evicting.Evictions):
    """Whether a victim may leave is found out when others have left."""

    async def _may_all_leave(self, eviction: preempting.Eviction, queue: planning.Queue) -> bool:
        LOG.info("%s evicts, whatever comes of it (%s)", eviction.preemptor.name, queue)
        return True


class _StampsAhead(memory.Memory):
    """What did not fit is taken as not fitting on the row that is written next either."""

    def end(self) -> None:
        super().end()
        self._clocks[self._active & ~self._possible] += 1


class _Oversleeps(leader.Leader):
    """Its queue loses wake-ups, in every term."""

    def _work(self) -> float:
        self._queue._memory.__class__ = _StampsAhead
        return super()._work()


class _Patient(leader.Leader):
    """Its queue waits until there is room, in every term."""

    def _work(self) -> float:
        self._queue.__class__ = defective.SearchesNobody
        return super()._work()


class _PreemptsNobody(evicting.Evictions):
    """Whoever is to be evicted stays."""

    async def evict(self, eviction: preempting.Eviction, queue: planning.Queue) -> None:
        LOG.info("%s waits for ever (%s)", eviction.preemptor.name, queue)


class _BindsByName(client.Client):
    """Binds whatever has the pod's name by then."""

    async def post_once(self, path: str, value: Mapping[str, Any], *, timeout_seconds: float) -> Any:
        if path.endswith("/binding"):
            metadata = {key: field for key, field in value["metadata"].items() if key != "uid"}
            value = {**value, "metadata": metadata}
        return await super().post_once(path, value, timeout_seconds=timeout_seconds)


class _EvictsByName(client.Client):
    """Evicts whatever has the pod's name by then."""

    async def post_once(self, path: str, value: Mapping[str, Any], *, timeout_seconds: float) -> Any:
        if path.endswith("/eviction"):
            value = {**value, "deleteOptions": {**value["deleteOptions"], "preconditions": {}}}
        return await super().post_once(path, value, timeout_seconds=timeout_seconds)


def _leads_for_ever(extender: service.Extender) -> None:
    extender.leadership.__class__ = _LeadsForEver


def _reserves_nothing(extender: service.Extender) -> None:
    extender.ledger.__class__ = _ReservesNothing


def _believes_deletions(extender: service.Extender) -> None:
    extender.ledger.graves.__class__ = _BelievesDeletions


def _gives_up_early(extender: service.Extender) -> None:
    extender.binder.__class__ = _GivesUpEarly


def _believes_in_time(extender: service.Extender) -> None:
    extender.binder._fences.__class__ = _BelievesInTime


def _fences_nothing(extender: service.Extender) -> None:
    extender.leader._fencing.__class__ = _FencesNothing


def _waits_for_all(extender: service.Extender) -> None:
    extender.leader._fencing.__class__ = _WaitsForAll


def _misses_ends(extender: service.Extender) -> None:
    extender.ledger.__class__ = _MissesEnds


def _leaves_the_unplaced(extender: service.Extender) -> None:
    extender.leader.__class__ = _Untidy


def _lifts_over_marks(extender: service.Extender) -> None:
    extender.leader._writes.__class__ = _LiftsOverMarks


def _evicts_blindly(extender: service.Extender) -> None:
    extender.leader._writes.evictions.__class__ = _EvictsBlindly


def _asks_again_at_once(extender: service.Extender) -> None:
    extender.leader._writes.evictions.__class__ = _AsksAgainAtOnce


def _evicts_one_by_one(extender: service.Extender) -> None:
    extender.leader._writes.evictions.__class__ = _EvictsOneByOne


def _oversleeps(extender: service.Extender) -> None:
    extender.leader.__class__ = _Oversleeps


def _searches_nobody(extender: service.Extender) -> None:
    extender.leader.__class__ = _Patient


def _preempts_nobody(extender: service.Extender) -> None:
    extender.leader._writes.evictions.__class__ = _PreemptsNobody


def _overbooks(extender: service.Extender) -> None:
    extender.ledger.__class__ = defective.Overbooks


def _binds_by_name(extender: service.Extender) -> None:
    extender.binder._api.__class__ = _BindsByName


def _evicts_by_name(extender: service.Extender) -> None:
    extender.binder._api.__class__ = _EvictsByName


DEFECTS: Mapping[str, Callable[[service.Extender], None]] = MappingProxyType(
    {
        "leads for ever": _leads_for_ever,
        "reserves nothing": _reserves_nothing,
        "believes deletions": _believes_deletions,
        "gives up early": _gives_up_early,
        "believes in time": _believes_in_time,
        "fences nothing": _fences_nothing,
        "waits for all": _waits_for_all,
        "misses ends": _misses_ends,
        "leaves the unplaced": _leaves_the_unplaced,
        "lifts over marks": _lifts_over_marks,
        "evicts blindly": _evicts_blindly,
        "asks again at once": _asks_again_at_once,
        "evicts one by one": _evicts_one_by_one,
        "oversleeps": _oversleeps,
        "searches nobody": _searches_nobody,
        "preempts nobody": _preempts_nobody,
        "overbooks by one hundredth": _overbooks,
        "binds by name": _binds_by_name,
        "evicts by name": _evicts_by_name,
    }
)
