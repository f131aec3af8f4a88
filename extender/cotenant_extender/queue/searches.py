"""When jobs are looked at for victims: in turn, those that were not looked at for longest first."""

import heapq
from collections.abc import Iterable, Iterator, Sequence

from cotenant_extender.ledger import ledger
from cotenant_extender.queue import earmarking, order, preemption

LOOKED_AT = 16
DELAY_SECONDS = 0.2
"""How long a search may wait for passes that lift something, and has to wait after one in vain: lifts go first."""
GAVE_WAY_SECONDS = 10.0
"""A job that gave way is served when its turn comes again within this."""
AHEAD = 4
"""Jobs ahead of one that are asked first."""
SECONDS = 2.0
"""A job for which none were found is looked at again after this."""
KEPT = 99
"""Jobs beside twice those that wait of which it is remembered when they were looked at."""


class Searches:
    """When each job is looked at again, in seconds since the epoch."""

    def __init__(self) -> None:
        self._next: dict[order.Name, float] = {}
        self._gave_way: dict[order.Name, float] = {}
        self._asked: dict[order.Name, float] = {}
        self._by = self._from = 0.0

    def rests(self, *, now: float) -> bool:
        """Return whether a search in vain is so recent that lifts go first."""
        return now < self._from

    def gives_way(self, *, now: float) -> bool:
        """Return whether a pass that lifts something leaves the search to the next one."""
        return now < self._by

    def begin(self, *, now: float) -> None:
        """Note that a pass searches."""
        self._by = now + DELAY_SECONDS

    def in_vain(self, *, now: float) -> None:
        """Note that nobody was found for a job."""
        self._from = now + DELAY_SECONDS

    def looked_at(self, name: order.Name, *, now: float) -> None:
        """Note that a job had its turn."""
        self._next[name] = now + SECONDS

    def again(self, names: Iterable[order.Name]) -> None:
        """Give these jobs a turn at once."""
        for name in names:
            self._next.pop(name, None)

    def lets_past(self, name: order.Name, ahead: Sequence[order.Name], *, now: float) -> bool:
        """Return whether a job for which room was found leaves it to those ahead of it, which have a turn first.

        Once: when its own turn comes again they have had theirs. None of them gets one so again within `SECONDS`: jobs
        that can have no victims would be asked for every other's.
        """
        self._asked = {known: when for known, when in self._asked.items() if when + SECONDS > now}
        ahead = [known for known in ahead if known not in self._asked]
        if self._gave_way.pop(name, -GAVE_WAY_SECONDS) + GAVE_WAY_SECONDS > now or not ahead:
            return False
        self._asked.update(dict.fromkeys(ahead, now))
        self._gave_way = {known: when for known, when in self._gave_way.items() if when + GAVE_WAY_SECONDS > now}
        self._gave_way[name] = now
        self.again([*ahead, name])
        return True

    def due(self, entries: Iterable[order.Entry], *, now: float) -> Iterator[order.Entry]:
        """Yield those of these jobs, given in the order of the line, whose turn it is, at most `LOOKED_AT`."""
        turns = ((self._next.get(entry.name, 0.0), place, entry) for place, entry in enumerate(entries))
        for when, _, entry in heapq.nsmallest(LOOKED_AT, turns):
            if when > now:
                return
            yield entry

    def forget(self, waiting: int, *, now: float) -> None:
        """Forget jobs that may have gone, where many more are remembered than wait."""
        if len(self._next) > 2 * waiting + KEPT:
            self._next = {name: until for name, until in self._next.items() if until > now}


class Found:
    """Room that was found for a gang late in a pass: the next one begins with it, and promises it.

    Nothing is taken back for it before: what is free for two passes, another would get.

    Attributes:
        name: whose it is; None: none was left.
    """

    def __init__(self) -> None:
        self.name: order.Name | None = None
        self._kept: tuple[earmarking.AsOf, preemption.Choice] | None = None

    def keep(self, source: ledger.Ledger, entry: order.Entry, choice: preemption.Choice) -> None:
        """Leave it to the next pass."""
        self.name, self._kept = entry.name, (earmarking.AsOf.now(source, entry), choice)

    def take(self, source: ledger.Ledger, entry: order.Entry) -> preemption.Choice | None:
        """Return what was left for a gang, if nothing has changed."""
        if self.name != entry.name:
            return None
        kept, self.name, self._kept = self._kept, None, None
        return kept[1] if kept is not None and earmarking.AsOf.now(source, entry).same(kept[0]) else None
