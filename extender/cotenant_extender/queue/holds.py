"""Which GPUs are held for the oldest job that does not fit.

Those that would take its pods if they were empty, and that have the least booked now: they are likely to be free
soonest. Run times are not known, so a hold may be wrong about which; it stays where it is until its job is placed or
its GPUs close, so that they do empty. The pods of a gang share held GPUs where the rules let them.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from cotenant_api.names import GPUUID, HUNDREDTHS, NodeName
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import fleet, rules, view
from cotenant_extender.queue import order

HOPELESS_SECONDS = 30.0
"""A job that would not even fit on empty GPUs is looked at again after this."""

Held = dict[NodeName, set[GPUUID]]


class Reservation:
    """The one job for which GPUs are held because it has waited too long.

    Attributes:
        hold: what is held; None: nothing is.
    """

    def __init__(self) -> None:
        self.hold: view.Hold | None = None
        self._checked: tuple[fleet.Fleet, tuple[int, ...]] | None = None
        self._hopeless: dict[order.Name, float] = {}

    def keep(self, source: ledger.Ledger, entry: order.Entry, *, now: float) -> bool:
        """Hold GPUs for a job's pods, the same as before where these can still serve them; whether there are any."""
        if self._hopeless.get(entry.name, now) > now:
            return False
        requests = entry.requests
        hold = view.Hold(
            holders=frozenset(request.demand.uid for request in requests), priority=entry.priority, since=entry.since
        )
        if hold == self.hold and self._stands(source, requests):
            return True
        self.end(source)
        found = _suited(source.seen(), requests)
        if found is None:
            self._hopeless = {name: until for name, until in self._hopeless.items() if until > now}
            self._hopeless[entry.name] = now + HOPELESS_SECONDS
            return False
        source.set_hold(hold, found)
        self.hold = hold
        return True

    def end(self, source: ledger.Ledger) -> None:
        """Hold nothing."""
        if self.hold is not None:
            source.end_hold(self.hold)
        self.hold = self._checked = None

    def _stands(self, source: ledger.Ledger, requests: Sequence[view.Request]) -> bool:
        """Whether the GPUs that are held can still serve the job; asked again only where a row was written."""
        seen, held = source.seen(), source.holds.get(self.hold, {}) if self.hold is not None else {}
        rows = [seen.rows.get(name, -1) for name in held]
        as_of = seen, tuple(int(seen.versions[row]) if row >= 0 else -1 for row in rows)
        if self._checked is not None and self._checked[0] is seen and self._checked[1] == as_of[1]:
            return True
        if _suited(seen, requests, among=held) is None:
            return False
        self._checked = as_of
        return True


def room(seen: fleet.Fleet, requests: Sequence[view.Request]) -> int:
    """How many of a job's pods would find room if all GPUs were empty, the largest first."""
    emptied, cost = _emptied(seen), np.zeros(seen.present.shape, dtype=np.int64)
    for count, request in enumerate(sorted(requests, key=lambda request: -request.demand.share)):
        if _cheapest(emptied, request, cost) is None:
            return count
    return len(requests)


def _emptied(seen: fleet.Fleet) -> fleet.Fleet:
    emptied = seen.emptied()
    emptied.free_share[:] = np.iinfo(np.int64).max
    return emptied


def _suited(
    seen: fleet.Fleet, requests: Sequence[view.Request], *, among: Mapping[NodeName, frozenset[GPUUID]] | None = None
) -> Held | None:
    """GPUs for all of the pods, if these were empty; None where there are not enough. Not those held for others."""
    emptied = _emptied(seen)
    emptied.present &= (seen.hold == 0) if among is None else _cells(seen, among)
    cost = np.where(emptied.present, HUNDREDTHS - seen.free, 0)
    held: Held = {}
    for request in sorted(requests, key=lambda request: -request.demand.share):
        found = _cheapest(emptied, request, cost)
        if found is None:
            return None
        row, slots = found
        for slot in slots:
            held.setdefault(seen.nodes[row].name, set()).add(seen.nodes[row].gpus[slot].uuid)
            cost[row, slot] = -1
    return held


def _cheapest(emptied: fleet.Fleet, request: view.Request, cost: rules.Array) -> tuple[int, list[int]] | None:
    """Where least would have to be freed for a pod, which is put there: none on GPUs that were taken before."""
    offers = rules.offers(emptied, request, check_host=False)
    allowed = emptied.schedulable & emptied.allowed(request.constraints)
    fits = offers.cells & allowed[:, None]
    priced = np.where(fits, cost, _NEVER)
    slots = np.argsort(priced, axis=1, kind="stable")[:, : offers.gpus]
    total = np.take_along_axis(priced, slots, axis=1).sum(axis=1)
    if slots.shape[1] < offers.gpus or not len(total) or total.min() >= _NEVER // 2:
        return None
    row = int(total.argmin())
    chosen = [int(slot) for slot in slots[row]]
    for slot in chosen:
        share, memory = offers.needs.at(row, slot)
        emptied.take(row, slot, request, share=share, memory_mib=memory)
    return row, chosen


_NEVER = 1_000_000_000


def _cells(seen: fleet.Fleet, among: Mapping[NodeName, frozenset[GPUUID]]) -> rules.Array:
    """Which cells these GPUs are, as long as they are held for the job."""
    found = np.zeros(seen.present.shape, dtype=np.bool_)
    for name, uuids in among.items():
        row = seen.rows.get(name)
        if row is not None:
            for slot, gpu in enumerate(seen.nodes[row].gpus):
                found[row, slot] = gpu.uuid in uuids
    return found
