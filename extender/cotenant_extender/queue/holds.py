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

Held = dict[NodeName, set[GPUUID]]


def keep(source: ledger.Ledger, requests: Sequence[view.Request]) -> None:
    """Hold GPUs for a job's pods, the same as before where these can still serve them."""
    hold = view.Hold(
        holders=frozenset(request.demand.uid for request in requests),
        priority=max(request.priority for request in requests),
        since=min(request.since for request in requests),
    )
    seen = source.seen()
    if source.hold == hold and _suited(seen, requests, among=source.held) is not None:
        return
    found = _suited(seen, requests)
    source.set_hold(None if found is None else hold, found)


def _suited(
    seen: fleet.Fleet, requests: Sequence[view.Request], *, among: Mapping[NodeName, frozenset[GPUUID]] | None = None
) -> Held | None:
    """GPUs for all of the pods, if these were empty; None where there are not enough."""
    emptied = seen.emptied()
    emptied.free_share[:] = np.iinfo(np.int64).max
    if among is not None:
        emptied.present &= _cells(seen, among)
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
    found = np.zeros(seen.present.shape, dtype=np.bool_)
    for name, uuids in among.items():
        row = seen.rows.get(name)
        if row is not None:
            for slot, gpu in enumerate(seen.nodes[row].gpus):
                found[row, slot] = gpu.uuid in uuids
    return found
