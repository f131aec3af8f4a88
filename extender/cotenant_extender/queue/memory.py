"""What is known not to fit: which entries of the line are worth trying, so that a pass follows what changed.

A kind of request that no GPU took stays refused until a node's row is written again; then it is tried on such rows
alone, if it may fit there at all (see `screen`). A gang is tried again when one of its pods may fit on such a row.
Everything is forgotten with the fleet and the policy that it was found out on. It only ever leaves out what would fail.
"""

import bisect

import numpy as np

from cotenant_extender.ledger import ledger
from cotenant_extender.packing import fleet, rules, view
from cotenant_extender.queue import columns, line, order, screen
from cotenant_extender.steps import Steps

FEW = 4
"""So many new kinds are tried at once; more are screened first."""
ENTRIES_PER_STEP = 100
"""A step takes about two milliseconds: filter waits for it."""
_NONE = -1


class Memory:
    """What the last passes found out, and one pass at a time.

    Attributes:
        columns: of each entry of the line, in order, as of the beginning of the pass.
    """

    def __init__(self) -> None:
        self._seen: fleet.Fleet | None = None
        self._kinds: screen.Kinds | None = None
        self._clocks: rules.Array = np.zeros(0, dtype=np.int64)
        self._gangs: dict[order.Name, int] = {}
        self._gang_kinds: dict[order.Name, list[int]] = {}
        self._helped: dict[order.Name, int] = {}
        self._line: line.Line | None = None
        self._entries: list[order.Entry] = []
        self.columns = columns.Columns()
        self._single: rules.Array = np.zeros(0, dtype=np.bool_)
        self._active: rules.Array = np.zeros(0, dtype=np.bool_)
        self._possible: rules.Array = np.zeros(0, dtype=np.bool_)
        self._worth: rules.Array = np.zeros(0, dtype=np.bool_)
        self._permitted: rules.Array = np.zeros(0, dtype=np.bool_)
        self._out: rules.Array = np.zeros(0, dtype=np.bool_)
        self._stale = False

    def prepare(self, source: ledger.Ledger, waiting: line.Line) -> Steps[None]:
        """Number what everybody in the line asks for, in steps, where the line or the fleet is new."""
        kinds = self._current(source.seen(), waiting)
        if waiting is self._line:
            return
        for count, entry in enumerate(list(waiting.entries), start=1):
            for member in entry.members:
                kinds.of(member)
            if count % ENTRIES_PER_STEP == 0:
                yield
        self._follow(waiting)
        yield

    def begin(self, source: ledger.Ledger, waiting: line.Line) -> None:
        """Another pass."""
        self._current(source.seen(), waiting)
        self._follow(waiting)
        self._single = self.columns.kind >= 0
        self._active = np.bincount(self.columns.kind[self._single], minlength=len(self._clocks)) > 0
        self._clocks[~self._active] = _NONE
        self._out = np.zeros(len(self._clocks), dtype=np.bool_)
        self._screen(source)

    def next(self, start: int) -> int | None:
        """The place of the next entry that is worth trying."""
        rest = self._worth[start:]
        place = int(rest.argmax()) if len(rest) else 0
        return start + place if len(rest) and rest[place] else None

    def rows(self, source: ledger.Ledger, place: int) -> rules.Array | None:
        """The rows on which a single pod may fit; None: all have to be looked at."""
        seen, clock = source.seen(), self._clocks[self.columns.kind[place]]
        if clock < 0:
            return None
        changed = seen.versions > clock
        if self._permitted[place]:
            changed |= (seen.hold > 0).any(axis=1)
        return np.flatnonzero(changed)

    def placed(self) -> None:
        """Something was placed: less is free."""
        self._stale = True

    def changed(self, source: ledger.Ledger) -> None:
        """GPUs are held otherwise than before."""
        self._screen(source)

    def failed(self, source: ledger.Ledger, place: int) -> None:
        """An entry did not fit, nor will any like it in this pass."""
        clock = source.seen().clock
        kind, name = int(self.columns.kind[place]), self._entries[place].name
        if kind == columns.NO_KIND:
            self._gangs[name] = clock
        else:
            self._out[kind] = True
            self._worth[(self.columns.kind == kind) & ~self._permitted] = False
            if self._permitted[place]:
                self._helped[name] = clock
        if self._stale:
            self._screen(source)
        self._worth[place] = False

    def guests(self, source: ledger.Ledger, hold: view.Hold) -> rules.Array:
        """The places of single pods that may fit on GPUs that are so held, but for the hold."""
        seen, kinds = source.seen(), self._kinds
        code = seen.holds.get(hold, _NONE)
        if kinds is None:
            return np.zeros(0, dtype=np.intp)
        may = screen.may_fit(seen, kinds, np.flatnonzero((seen.hold == code).any(axis=1))).get(code)
        return np.flatnonzero(self._single & (False if may is None else may[self.columns.kind]))

    def end(self, source: ledger.Ledger) -> None:
        """Remember what did not fit: within a pass nothing became free. Kinds that nobody waits for are forgotten."""
        self._clocks[self._active & (self._out | ~self._possible)] = source.seen().clock

    def _current(self, seen: fleet.Fleet, waiting: line.Line) -> screen.Kinds:
        """Return the kinds of this fleet; all is forgotten where they are of another, or of too many that are gone."""
        kinds = self._kinds
        stands = kinds is not None and seen is self._seen and kinds.stands(seen)
        if kinds is None or not stands or len(kinds) > 2 * len(waiting.entries) + 999:
            kinds = self._forget(seen)
        return kinds

    def _forget(self, seen: fleet.Fleet) -> screen.Kinds:
        self._seen, self._kinds = seen, screen.Kinds(seen)
        self._clocks = np.zeros(0, dtype=np.int64)
        self._gangs.clear()
        self._helped.clear()
        self._line = None
        return self._kinds

    def _follow(self, waiting: line.Line) -> None:
        """Take over the line as arrays: what changed, or all of it."""
        journal = waiting.journal if waiting is self._line else None
        if journal is None:
            self._read(waiting)
        for place, entry in journal or ():
            if entry is None:
                self.columns.take(place)
                gone = self._entries.pop(place)
                for known in (self._gangs, self._helped, self._gang_kinds):
                    known.pop(gone.name, None)
            else:
                self._entries.insert(place, entry)
                self.columns.put(place, columns.row(entry, self._number(entry)))
        waiting.journal, self._line = [], waiting
        new = (0 if self._kinds is None else len(self._kinds)) - len(self._clocks)
        if new:
            self._clocks = np.concatenate([self._clocks, np.full(new, _NONE)])

    def _read(self, waiting: line.Line) -> None:
        """All of the line."""
        self._entries = list(waiting.entries)
        self._gang_kinds.clear()
        self.columns.read([columns.row(entry, self._number(entry)) for entry in self._entries])
        for known in (self._gangs, self._helped):
            for name in [name for name in known if waiting.get(name) is None]:
                del known[name]

    def _number(self, entry: order.Entry) -> int:
        """The kind of a single pod; those of a gang's pods are kept apart."""
        if self._kinds is None:
            raise ValueError("kinds are numbered during a pass")
        if entry.gang is None:
            return self._kinds.of(entry.members[0])
        self._gang_kinds[entry.name] = sorted({self._kinds.of(member) for member in entry.members})
        return columns.NO_KIND

    def _screen(self, source: ledger.Ledger) -> None:
        """Which entries may fit as things are."""
        self._stale = False
        seen, kinds = source.seen(), self._kinds
        if kinds is None:
            return
        by_hold = self._may_fit(seen, kinds, held=bool(source.holds))
        self._possible = by_hold.pop(0) & ~self._out
        self._worth = self._single & self._possible[self.columns.kind]
        self._permitted = np.zeros(len(self._entries), dtype=np.bool_)
        for hold in source.holds:
            may = by_hold.get(seen.holds.get(hold, _NONE))
            if may is not None:
                self._help(seen, hold, may)
        gangs: dict[int, rules.Array] = {}
        for place in np.flatnonzero(~self._single):
            self._worth[place] = self._gang_may(seen, kinds, self._entries[place], gangs)

    def _may_fit(self, seen: fleet.Fleet, kinds: screen.Kinds, *, held: bool) -> dict[int, rules.Array]:
        """By code of the hold; on the rows that were written since each kind failed, and on those that are held."""
        fresh = self._active & (self._clocks < 0)
        known = self._active & ~fresh
        found = fresh
        if np.count_nonzero(fresh) > FEW:
            found = fresh & screen.may_fit(seen, kinds)[0]
        if known.any():
            changed = np.flatnonzero(seen.versions > self._clocks[known].min())
            if (seen.free[changed] >= kinds.least_share(known)).any():
                found = found | (known & screen.may_fit(seen, kinds, changed)[0])
        by_hold = screen.may_fit(seen, kinds, np.flatnonzero((seen.hold > 0).any(axis=1))) if held else {}
        by_hold[0] = found
        return by_hold

    def _help(self, seen: fleet.Fleet, hold: view.Hold, may: rules.Array) -> None:
        """Entries that may use what is held are worth trying there, too, until they failed there."""
        priority, since = self.columns.priority, self.columns.since
        allowed = (priority > hold.priority) | ((priority == hold.priority) & (since < hold.since))
        waiting = self._line or line.Line()
        mine = [entry for uid in hold.holders if (entry := waiting.of_pod(uid)) is not None]
        allowed[[self._place(entry) for entry in mine]] = True
        allowed &= self._single
        self._permitted |= allowed
        latest = int(seen.versions[(seen.hold == seen.holds[hold]).any(axis=1)].max(initial=0))
        for place in np.flatnonzero(allowed & ~self._worth):
            if may[self.columns.kind[place]]:
                self._worth[place] = self._helped.get(self._entries[place].name, _NONE) < latest

    def _place(self, entry: order.Entry) -> int:
        """Where an entry of the line stands."""
        place = bisect.bisect_left(self._entries, entry.key, key=lambda known: known.key)
        while self._entries[place] is not entry:
            place += 1
        return place

    def _gang_may(
        self, seen: fleet.Fleet, kinds: screen.Kinds, entry: order.Entry, cached: dict[int, rules.Array]
    ) -> bool:
        clock = self._gangs.get(entry.name, _NONE)
        if clock < 0:
            return True
        if clock not in cached:
            changed = np.flatnonzero(seen.versions > clock)
            cached[clock] = np.zeros(len(kinds), dtype=np.bool_)
            if len(changed):
                for may in screen.may_fit(seen, kinds, changed).values():
                    cached[clock] |= may
        return bool(cached[clock][self._gang_kinds[entry.name]].any())
