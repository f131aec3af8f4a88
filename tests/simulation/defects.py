"""Extenders with a planted defect each: the simulation must tell them from a right one.

A defect is a subclass that is put in the place of a part's class, after the extender was built.
"""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from cotenant_api import placement
from cotenant_api.names import PodUID
from cotenant_extender import binder, leadership, records, service, writer
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

    async def _resolve(self, record: records.Pod, placed: placement.Placement, *, refused: bool = False) -> Any:
        LOG.info("%s: no reply (%s, %s)", record.name, placed.node, refused)
        self._forget(record.uid)
        self._ledger.end_earmark(record.uid)
        return binder.Outcome(binder.Result.LOST, "no reply")


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
        "misses ends": _misses_ends,
        "leaves the unplaced": _leaves_the_unplaced,
        "evicts blindly": _evicts_blindly,
        "asks again at once": _asks_again_at_once,
    }
)
