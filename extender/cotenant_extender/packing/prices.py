"""Dual prices, learned as pods come: those in force, and those that are being found.

Nothing is known in advance: until `FIRST` pods have come there are no prices. They are found anew whenever
half as many more have come, or `OFTEN`. That takes many short steps, one each time that somebody asks; what was found
before is in force meanwhile. The same pods in the same order give the same prices. Pure.
"""

from typing import Final

from cotenant_extender.packing import fleet, markets, mix

FIRST: Final = 32
OFTEN: Final = 1024


class Prices:
    """Prices of the recent mix of demands."""

    def __init__(self) -> None:
        self._due = FIRST
        self._next: markets.Search | None = None
        self._standing: markets.Search | None = None
        self._tables: markets.Tables | None = None

    def tables(self, learned: mix.Mix, source: fleet.Fleet) -> markets.Tables | None:
        """Worth by the prices in force, for the models of a fleet; None as long as there are none.

        Does a bounded piece of work towards newer prices; these are of the whole fleet that this is a part of.
        """
        if self._next is not None:
            self._go_on(self._next)
        elif learned.arrivals >= self._due:
            self._begin(learned, source if source.whole is None else source.whole[0])
        columns = source.present.shape[1]
        if self._standing is not None and not _covers(self._tables, source):
            self._tables = self._standing.tables(tuple(source.models), columns)
        return self._tables

    def _begin(self, learned: mix.Mix, whole: fleet.Fleet) -> None:
        self._due = learned.arrivals + min(OFTEN, max(learned.arrivals // 2, FIRST))
        weights, supply = learned.weights(), markets.Supply.of(whole)
        if supply.gpus and any(demand.share for demand in weights):
            self._next = markets.Search(weights, supply)

    def _go_on(self, search: markets.Search) -> None:
        search.program.step()
        if search.program.done:
            self._standing, self._next, self._tables = search, None, None
        elif search.program.failed:
            self._next = None


def _covers(tables: markets.Tables | None, source: fleet.Fleet) -> bool:
    if tables is None or tables.models != tuple(source.models):
        return False
    return bool(tables.idle.shape[1] > source.present.shape[1])
