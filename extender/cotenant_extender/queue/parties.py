"""Who leaves with whom, whether they may, and what is lost with them: asked many times in one search. Pure."""

import math
from collections.abc import Collection

from cotenant_api.names import PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import roster

LEAST = -(2**31)

Party = frozenset[PodUID]
"""Pods that leave together or not at all."""


class Parties:
    """Pods that may be asked to leave for a job, as the ledger is now: what was found is kept.

    Args:
        source: the ledger, which does not change meanwhile.
        priority: of the job; only pods of a lower one leave.
        staying: pods that must not be asked.
        now: in seconds since the epoch.
        evicts: who would be gone only then, or later, is not evicted.
    """

    def __init__(
        self, source: ledger.Ledger, *, priority: int, staying: Collection[PodUID], now: float, evicts: float
    ) -> None:
        self._source, self._priority, self._staying, self._now, self._evicts = source, priority, staying, now, evicts
        self._standings: dict[PodUID, roster.Standing] = {}
        self._of: dict[PodUID, Party] = {}
        self._may: dict[Party, bool] = {}

    def of(self, uid: PodUID) -> Party:
        """Return who leaves with a pod."""
        found = self._of.get(uid)
        if found is None:
            found = self._of[uid] = frozenset(roster.together(self._source, uid))
            if uid in self._source.claims and self._standing(uid) is not roster.Standing.LEAVING:
                # It is one of them, not merely added to them: each of them leaves with the same.
                self._of.update(dict.fromkeys(found, found))
        return found

    def all_may_leave(self, party: Party) -> bool:
        """Return whether every one of these may be asked to leave."""
        found = self._may.get(party)
        if found is None:
            found = self._may[party] = all(map(self.may_leave, party))
        return found

    def may_leave(self, uid: PodUID) -> bool:
        """Return whether a pod may be asked to leave, whoever leaves with it."""
        record = self._source.pods.get(uid)
        if record is None or uid in self._staying or record.priority >= self._priority:
            return False
        match self._standing(uid):
            case roster.Standing.EARMARKED:
                return True
            case roster.Standing.RUNNING:
                gone = self._now + record.tenure.grace_seconds
                return gone < self._evicts and roster.ready_at(self._source, record) <= self._now
            case _:
                return False

    def cost(self, party: Collection[PodUID]) -> tuple[int, int, float, list[PodUID]]:
        """Highest priority, pods and seconds run of those that would be evicted; earmarks cost next to nothing."""
        running = [self._source.pods[uid] for uid in party if not self.is_earmarked(uid)]
        # A sum that rounds once: parties are sets, and have no order.
        lost = math.fsum(self._now - record.started for record in running if record.started is not None)
        return max((record.priority for record in running), default=LEAST), len(running), lost, sorted(party)

    def is_earmarked(self, uid: PodUID) -> bool:
        """Return whether a pod only has a promise."""
        return self._standing(uid) is roster.Standing.EARMARKED

    def _standing(self, uid: PodUID) -> roster.Standing:
        found = self._standings.get(uid)
        if found is None:
            found = self._standings[uid] = roster.standing_of(self._source, uid)
        return found
