"""Extenders with a planted defect each: the simulation must tell them from a right one.

A defect is a subclass that is put in the place of a part's class, after the extender was built.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

from cotenant_api import placement
from cotenant_api.names import PodUID
from cotenant_extender import binder, fencing, leadership, records, service, takeover, writer
from cotenant_extender.ledger import graves, ledger
from cotenant_extender.queue import cleanup

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

    async def _resolve(self, record: records.Pod) -> str | None:
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


class _EvictsBlindly(writer.Writer):
    """What a budget keeps is deleted."""

    async def _evict(self, victim: records.Pod) -> str:
        found = await super()._evict(victim)
        return await self._delete(self._ledger.pods[victim.uid]) if found == "refused" else found


class _AsksAgainAtOnce(writer.Writer):
    """What a budget keeps is asked again in the next pass."""

    async def _evict(self, victim: records.Pod) -> str:
        found = await super()._evict(victim)
        return "changed" if found == "refused" else found


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


def _misses_ends(extender: service.Extender) -> None:
    extender.ledger.__class__ = _MissesEnds


def _leaves_the_unplaced(extender: service.Extender) -> None:
    extender.leader._cleaner.__class__ = _LeavesTheUnplaced


def _evicts_blindly(extender: service.Extender) -> None:
    extender.leader._writes.__class__ = _EvictsBlindly


def _asks_again_at_once(extender: service.Extender) -> None:
    extender.leader._writes.__class__ = _AsksAgainAtOnce


DEFECTS: Mapping[str, Callable[[service.Extender], None]] = MappingProxyType(
    {
        "leads for ever": _leads_for_ever,
        "reserves nothing": _reserves_nothing,
        "believes deletions": _believes_deletions,
        "gives up early": _gives_up_early,
        "believes in time": _believes_in_time,
        "fences nothing": _fences_nothing,
        "misses ends": _misses_ends,
        "leaves the unplaced": _leaves_the_unplaced,
        "evicts blindly": _evicts_blindly,
        "asks again at once": _asks_again_at_once,
    }
)
