"""The line: everything that waits, in order, kept from pass to pass. Work follows what changed, not how many wait."""

import bisect
import heapq
from collections.abc import Collection

from cotenant_api import packingpolicy
from cotenant_api.names import PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import order
from cotenant_extender.steps import Steps

MANY = 64
"""Changed entries above which all are sorted again."""
PODS_PER_STEP, ENTRIES_PER_STEP = 5000, 200
"""A step takes about two milliseconds: filter waits for it."""
SPARE_LOOKS = 64
"""So many looks that are not due any more may be remembered beside as many as are."""


class Line:
    """Entries in order.

    Attributes:
        entries: all of them.
        journal: what became of `entries`, step by step, since whoever follows it took it: places at which one was put
            or, None, taken out; None: read all of them again.
    """

    def __init__(self) -> None:
        self.entries: list[order.Entry] = []
        self.journal: list[tuple[int, order.Entry | None]] | None = None
        self._known: dict[order.Name, order.Entry] = {}
        self._names: dict[PodUID, order.Name] = {}
        self._rules: packingpolicy.Queue | None = None
        self._due: list[tuple[float, PodUID]] = []
        self._timed: dict[PodUID, float] = {}

    @property
    def looks(self) -> int:
        """How many times are remembered at which a pod is looked at again."""
        return len(self._due)

    @classmethod
    def made(cls, source: ledger.Ledger, rules: packingpolicy.Queue, *, now: float) -> Steps["Line"]:
        """Make the line of everything that waits, in steps. What is touched meanwhile is still to be taken in."""
        found, dirty = cls(), set[order.Name]()
        found._rules = rules
        for count, uid in enumerate(list(source.pods), start=1):
            found._note(source, uid, dirty)
            if count % PODS_PER_STEP == 0:
                yield
        for count, name in enumerate(dirty, start=1):
            found._replace(source, name, rules, many=True, now=now)
            if count % ENTRIES_PER_STEP == 0:
                yield
        found.entries = sorted(found._known.values(), key=_key)
        return found

    def follows(self, rules: packingpolicy.Queue) -> bool:
        """Return whether the entries are ordered by these rules."""
        return self._rules == rules

    def get(self, name: order.Name) -> order.Entry | None:
        """Return the entry of a pod, or of a gang."""
        return self._known.get(name)

    def of_pod(self, uid: PodUID) -> order.Entry | None:
        """Return the entry in which a pod waits."""
        name = self._names.get(uid)
        found = None if name is None else self._known.get(name)
        return found if found is not None and any(member.uid == uid for member in found.members) else None

    def update(
        self, source: ledger.Ledger, rules: packingpolicy.Queue, touched: Collection[PodUID], *, now: float
    ) -> None:
        """Take in what changed about these pods, and what passing time changed about others."""
        if rules != self._rules:
            self._rules = rules
            touched = {*touched, *source.index.pending, *self._names}
        dirty: set[order.Name] = set()
        for uid in (*touched, *self._overdue(now=now)):
            self._note(source, uid, dirty)
        if len(self._due) > 2 * len(self._timed) + SPARE_LOOKS:
            self._due = [(when, uid) for uid, when in self._timed.items()]
            heapq.heapify(self._due)
        many = len(dirty) > MANY
        for name in dirty:
            self._replace(source, name, rules, many=many, now=now)
        if many or (self.journal is not None and len(self.journal) > MANY):
            self.journal = None
        if many:
            self.entries = sorted(self._known.values(), key=_key)

    def _note(self, source: ledger.Ledger, uid: PodUID, dirty: set[order.Name]) -> None:
        """Which entries a pod was, and is, part of. Bound members count in their gangs, too."""
        before = self._names.pop(uid, None)
        if before is not None:
            dirty.add(before)
        record = source.pods.get(uid)
        if record is None or not record.pending:
            self._timed.pop(uid, None)
        if record is None or not (record.pending or record.gang):
            return
        name: order.Name = source.index.gang_of(record) or uid
        self._names[uid] = name
        dirty.add(name)

    def _replace(
        self, source: ledger.Ledger, name: order.Name, rules: packingpolicy.Queue, *, many: bool, now: float
    ) -> None:
        """Put an entry as it is now in its place, unless all are sorted again."""
        before, after = self._known.pop(name, None), self._made(source, name, rules, now=now)
        if after is not None:
            self._known[name] = after
        if many:
            return
        if before is not None:
            place = self._place(before)
            del self.entries[place]
            self._write(place, None)
        if after is not None:
            place = bisect.bisect_left(self.entries, after.key, key=_key)
            self.entries.insert(place, after)
            self._write(place, after)

    def _write(self, place: int, entry: order.Entry | None) -> None:
        if self.journal is not None:
            self.journal.append((place, entry))

    def _place(self, entry: order.Entry) -> int:
        """Where an entry stands. A pod that left its gang may have an entry with the same key for a moment."""
        place = bisect.bisect_left(self.entries, entry.key, key=_key)
        while self.entries[place] is not entry:
            place += 1
        return place

    def _made(
        self, source: ledger.Ledger, name: order.Name, rules: packingpolicy.Queue, *, now: float
    ) -> order.Entry | None:
        if isinstance(name, tuple):
            everyone = list(source.index.gangs.get(name, {}).values())
            members = [record for record in everyone if record.pending]
        else:
            record = source.index.pending.get(name)
            everyone = members = [] if record is None or source.index.gang_of(record) is not None else [record]
        waiting = [record for record in members if order.waits(source, record, now=now)]
        for record in members:
            if not record.gates:
                self._time(record.uid, record.since + order.LOOSE_SECONDS, now=now)
        if not waiting:
            return None
        made = (
            order.gang(name, waiting, everyone, rules, now=now)
            if isinstance(name, tuple)
            else order.single(waiting[0], rules, now=now)
        )
        if not made.aged:
            self._time(made.members[0].uid, made.since + rules.max_wait_seconds, now=now)
        return made

    def _time(self, uid: PodUID, when: float, *, now: float) -> None:
        """Look at a pod again after a time, at the first of several."""
        standing = self._timed.get(uid)
        if when < now or (standing is not None and standing <= when):
            return
        self._timed[uid] = when
        heapq.heappush(self._due, (when, uid))

    def _overdue(self, *, now: float) -> list[PodUID]:
        found = []
        while self._due and self._due[0][0] < now:
            when, uid = heapq.heappop(self._due)
            if self._timed.get(uid) == when:
                del self._timed[uid]
                found.append(uid)
        return found


def _key(entry: order.Entry) -> order.Key:
    return entry.key
