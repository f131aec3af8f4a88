"""What is known not to fit: which entries of the line are worth trying, so that a pass follows what changed.

A kind of request that no GPU took stays refused until a node's row is written again; then it is tried on such rows
alone, if it may fit there at all (see `screen`). A gang is tried again when one of its pods may fit on such a row.
Everything is forgotten with the fleet and the policy that it was found out on. It only ever leaves out what would fail.

One clock orders both: the fleet's, which advances with every row that is written. What was found out is stamped with
the clock as it stood when the rows were looked at, and never later. So a row that is written after the look, within the
same pass or not, is always newer than the stamp, and is looked at again. No caller has to say that something is free.

A pass that is cut begins again at the first of the line, because what was freed meanwhile is offered to the first
first. Where something is freed all the time, such passes never reach the last. So a few of them catch up: they offer
only rows that were not written since the first of them began, so that everybody is tried there in order, once. Kinds
that are new are tried on every row.
"""

import bisect
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from cotenant_extender.ledger import ledger
from cotenant_extender.packing import fleet, rules, view
from cotenant_extender.queue import columns, line, order, screen
from cotenant_extender.steps import Steps

FEW = 4
"""So many new kinds are tried at once; more are screened first."""
ENTRIES_PER_STEP = 100
"""A step takes about two milliseconds: filter waits for it."""
LOOKS = 8
"""So often kinds, and gangs, are screened at once, by when they failed; those that failed longest ago together."""
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
        self._screened = self._looked = self._horizon = _NONE
        self._later: rules.Array | None = None
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
        """Give numbers to what everybody in the line asks for, in steps, where the line or the fleet is new."""
        kinds = self._current(source.seen(), waiting)
        if waiting is self._line:
            return
        entries, rows = list(waiting.entries), list[columns.Row]()
        for count, entry in enumerate(entries, start=1):
            if kinds is self._kinds:
                rows.append(columns.row(entry, self._number(entry)))
            if count % ENTRIES_PER_STEP == 0:
                yield
        if kinds is self._kinds and entries == waiting.entries:
            self._take(waiting, rows)
        self._follow(waiting)
        yield

    def begin(self, source: ledger.Ledger, *, catches_up: bool = False) -> None:
        """Begin another pass over the line that was followed last.

        One that catches up leaves out what changed since the first of them began.
        """
        self._later = None
        if catches_up:
            self._horizon = source.seen().clock if self._horizon < 0 else self._horizon
            self._later = source.seen().versions > self._horizon
        self._active = np.bincount(self.columns.kind[self._single], minlength=len(self._clocks)) > 0
        self._clocks[~self._active] = _NONE
        if source.seen().released:
            self._reopen(source.seen().released)
        self._out = np.zeros(len(self._clocks), dtype=np.bool_)
        self._screen(source)

    def follow(self, source: ledger.Ledger, waiting: line.Line) -> None:
        """Take over what changed in the line."""
        self._current(source.seen(), waiting)
        self._follow(waiting)
        self._single = self.columns.kind >= 0

    def _reopen(self, released: int) -> None:
        """Look anew for what did not fit before: a namespace that gave up a GPU may use any other instead."""
        self._clocks[self._clocks < released] = _NONE
        for known in (self._gangs, self._helped):
            for name in [name for name, clock in known.items() if clock < released]:
                del known[name]

    def next(self, start: int) -> int | None:
        """Return the place of the next entry that is worth trying."""
        rest = self._worth[start:]
        place = int(rest.argmax()) if len(rest) else 0
        return start + place if len(rest) and rest[place] else None

    def rows(self, source: ledger.Ledger, place: int) -> rules.Array | None:
        """Return the rows on which a single pod may fit, which is tried there now; None: all have to be looked at."""
        seen, clock = source.seen(), self._clocks[self.columns.kind[place]]
        self._looked = seen.clock
        if clock < 0 or (self._permitted[place] and _bounds_namespaces(seen)):
            return None
        self._looked = self._as_of(seen)
        changed = self._changed(seen, clock)
        if self._permitted[place]:
            changed |= (seen.hold > 0).any(axis=1)
        return np.flatnonzero(changed)

    def placed(self) -> None:
        """Something was placed: less is free."""
        self._stale = True

    def changed(self, source: ledger.Ledger) -> None:
        """GPUs are held otherwise than before: try, in this pass already, who may use them now."""
        self._screen(source)

    def failed(self, source: ledger.Ledger, place: int) -> None:
        """Note that an entry did not fit, nor will any like it in this pass."""
        kind, name = int(self.columns.kind[place]), self._entries[place].name
        if kind == columns.NO_KIND:
            # Rows that its own attempt wrote, and wrote back, are as they were when they were looked at.
            self._gangs[name] = source.seen().clock
        else:
            self._out[kind] = True
            self._clocks[kind] = max(self._clocks[kind], self._looked)
            self._worth[(self.columns.kind == kind) & ~self._permitted] = False
            if self._permitted[place]:
                self._helped[name] = self._looked
        if self._stale:
            self._screen(source)
        self._worth[place] = False

    def bar(self, place: int) -> None:
        """Note that an entry is refused under this policy, whatever is free."""
        self.columns.barred[place] = True
        self._worth[place] = False

    def guests(self, source: ledger.Ledger, hold: view.Hold) -> rules.Array:
        """Return the places of single pods that may fit on nodes of which GPUs are so held, but for the hold.

        Where the policy bounds namespaces, a hold refuses GPUs of other nodes, too.
        """
        seen, kinds = source.seen(), self._kinds
        code = seen.holds.get(hold, _NONE)
        if kinds is None:
            return np.zeros(0, dtype=np.intp)
        rows = None if _bounds_namespaces(seen) else np.flatnonzero((seen.hold == code).any(axis=1))
        may = screen.may_fit(seen, kinds, rows)
        return np.flatnonzero(self._single & (may[0] | may.get(code, False))[self.columns.kind])

    def end(self) -> None:
        """Remember which kinds may not fit on any row, as of the last time that all were screened."""
        refused = self._active & ~self._possible
        self._clocks[refused] = np.maximum(self._clocks[refused], self._screened)

    def caught_up(self) -> None:
        """Everybody was tried on all rows that were to be looked at."""
        self._horizon = _NONE

    def _as_of(self, seen: fleet.Fleet) -> int:
        """Return the clock up to which rows are looked at in this pass."""
        return seen.clock if self._later is None else min(seen.clock, self._horizon)

    def _changed(self, seen: fleet.Fleet, clock: int) -> rules.Array:
        """Return which rows were written after this time, shape (N,), and are looked at in this pass."""
        changed: rules.Array = seen.versions > clock
        return changed if self._later is None else changed & ~self._later

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
        self._line, self._horizon = None, _NONE
        return self._kinds

    def _follow(self, waiting: line.Line) -> None:
        """Take over the line as arrays: what changed, or all of it."""
        if waiting is not self._line or waiting.journal is None:
            self._read(waiting)
        for place, entry in waiting.journal or ():
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
        """All of the line; the kind of an entry that is as it was is known."""
        known = {} if self._line is None else dict(zip(map(id, self._entries), self.columns.kind.tolist(), strict=True))
        kinds = (self._number(entry) if (kind := known.get(id(entry))) is None else kind for entry in waiting.entries)
        self._take(waiting, [columns.row(entry, kind) for entry, kind in zip(waiting.entries, kinds, strict=True)])

    def _take(self, waiting: line.Line, rows: Sequence[columns.Row]) -> None:
        """Take over all of the line. What was found out of an entry goes with it: its successor may ask for less."""
        standing = {entry.name: entry for entry in self._entries}
        self._entries = list(waiting.entries)
        self.columns.read(rows)
        for known in (self._gangs, self._helped):
            for name in [name for name in known if waiting.get(name) is not standing.get(name)]:
                del known[name]
        for name in [name for name in self._gang_kinds if waiting.get(name) is None]:
            del self._gang_kinds[name]
        waiting.journal, self._line = [], waiting

    def _number(self, entry: order.Entry) -> int:
        """Return the kind of a single pod; those of a gang's pods are kept apart."""
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
        self._screened = self._as_of(seen)
        by_hold = self._may_fit(seen, kinds, held=bool(source.holds))
        self._possible = by_hold.pop(0)
        self._worth = self._single & (self._possible & ~self._out)[self.columns.kind] & ~self.columns.barred
        self._permitted = np.zeros(len(self._entries), dtype=np.bool_)
        for hold in source.holds:
            may = by_hold.get(seen.holds.get(hold, _NONE))
            if may is not None:
                self._help(seen, hold, may)
        self._screen_gangs(seen, kinds)

    def _may_fit(self, seen: fleet.Fleet, kinds: screen.Kinds, *, held: bool) -> dict[int, rules.Array]:
        """By code of the hold; on the rows that were written since each kind failed, and on those that are held."""
        fresh = self._active & (self._clocks < 0)
        known = self._active & ~fresh
        found = fresh
        if np.count_nonzero(fresh) > FEW:
            found = fresh & screen.may_fit(seen, kinds)[0]
        for clock, among in self._by_clock(seen, known):
            changed = np.flatnonzero(self._changed(seen, clock))
            if (seen.free[changed] >= kinds.least_share(among)).any():
                found = found | (among & screen.may_fit(seen, kinds, changed)[0])
        on_held = screen.may_fit(seen, kinds, np.flatnonzero((seen.hold > 0).any(axis=1))) if held else {}
        # What is held on a node also refuses its other GPUs: their CPU, memory and pods are kept.
        return {code: may | on_held[0] for code, may in on_held.items()} | {0: found}

    def _by_clock(self, seen: fleet.Fleet, known: rules.Array) -> Iterator[tuple[int, rules.Array]]:
        """Group kinds by when they failed, unless nothing was written since; shape (K,) each."""
        latest = int((seen.versions if self._later is None else seen.versions[~self._later]).max(initial=_NONE))
        clocks = np.unique(self._clocks[known & (self._clocks < latest)]).tolist()
        for clock, following in _spans(clocks, latest):
            yield clock, known & (self._clocks >= clock) & (self._clocks < following)

    def _help(self, seen: fleet.Fleet, hold: view.Hold, may: rules.Array) -> None:
        """Entries that may use what is held are worth trying there, too, until they failed there."""
        priority, since = self.columns.priority, self.columns.since
        allowed = (priority > hold.priority) | ((priority == hold.priority) & (since < hold.since))
        waiting = self._line or line.Line()
        mine = [entry for uid in hold.holders if (entry := waiting.of_pod(uid)) is not None]
        allowed[[self._place(entry) for entry in mine]] = True
        allowed &= self._single & ~self.columns.barred
        self._permitted |= allowed
        latest = int(seen.versions[(seen.hold == seen.holds[hold]).any(axis=1)].max(initial=0))
        for place in np.flatnonzero(allowed & ~self._worth):
            if _bounds_namespaces(seen) or may[self.columns.kind[place]]:
                self._worth[place] = self._helped.get(self._entries[place].name, _NONE) < latest

    def _place(self, entry: order.Entry) -> int:
        """Where an entry of the line stands."""
        place = bisect.bisect_left(self._entries, entry.key, key=lambda known: known.key)
        while self._entries[place] is not entry:
            place += 1
        return place

    def _screen_gangs(self, seen: fleet.Fleet, kinds: screen.Kinds) -> None:
        """Which gangs are new, or may have a pod that fits on a row that was written since they failed."""
        failed: dict[int, int] = {}
        for place in np.flatnonzero(~self._single & ~self.columns.barred).tolist():
            clock = self._gangs.get(self._entries[place].name, _NONE)
            self._worth[place] = clock < 0
            if clock >= 0:
                failed[place] = clock
        clocks = sorted(set(failed.values()))
        for begin, end in _spans(clocks, seen.clock + 1):
            changed = np.flatnonzero(self._changed(seen, begin))
            if not len(changed):
                continue
            may = np.logical_or.reduce(list(screen.may_fit(seen, kinds, changed).values()))
            for place, clock in failed.items():
                if begin <= clock < end:
                    self._worth[place] = bool(may[self._gang_kinds[self._entries[place].name]].any())


def _spans(clocks: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    """Return at most `LOOKS` spans up to an end that hold these times; the first holds the oldest together."""
    return itertools.pairwise([*clocks[:1], *clocks[1:][1 - LOOKS :], end])


def _bounds_namespaces(seen: fleet.Fleet) -> bool:
    """Return whether what is held counts for a namespace, so that it refuses GPUs on any node."""
    return seen.policy.spec.max_gpus_per_namespace is not None
