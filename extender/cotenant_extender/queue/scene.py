"""A scene: the fleet as it would be if some tenants were gone and some pods were placed. The ledger is left alone."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cotenant_api.names import HUNDREDTHS, NodeName, PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import fleet, knowledge, looks, rules, spaces, suspicion, view
from cotenant_extender.queue import leavers, roster


class Before(NamedTuple):
    """A row as it was."""

    row: int
    values: tuple[rules.Array, ...]


class Scene:
    """A copy of the fleet that can be played through.

    Attributes:
        fleet: the copy.
        gone: who has left it.
        looks: at the copy.
    """

    def __init__(self, source: ledger.Ledger, seen: fleet.Fleet) -> None:
        self._source = source
        self.fleet = copied(seen)
        self.gone: set[PodUID] = set()
        self.looks = looks.Looks(self.fleet)

    def remove(self, uids: Iterable[PodUID]) -> None:
        """Take these off all of their GPUs."""
        for uid in uids:
            if uid not in self.gone:
                self.gone.add(uid)
                leave(self.fleet, self._source, uid)

    def place(self, request: view.Request, known: knowledge.Knowledge) -> tuple[int, tuple[int, ...]] | None:
        """Put a pod where the policy's placement would; the row and its GPUs, or None where it fits nowhere."""
        found = self.looks.choose(request, known)
        if found is None:
            return None
        row = self.fleet.rows[found.node.name]
        slots = tuple(found.node.gpus.index(gpu) for gpu in found.gpus)
        self.put(request, row, slots)
        return row, slots

    def place_on(self, request: view.Request, names: Sequence[NodeName]) -> tuple[int, tuple[int, ...]] | None:
        """Put a pod on the first of these nodes that takes it; the row and its GPUs, or None."""
        some = self.fleet.part(names)
        offers = rules.offers(some, request, check_host=True)
        if not names or not offers.fits.any():
            return None
        here, column = divmod(int(offers.fits.argmax()), offers.fits.shape[1])
        row, slots = self.fleet.rows[some.nodes[here].name], offers.slots(here, column)
        self.put(request, row, slots)
        return row, slots

    def put(self, request: view.Request, row: int, slots: Sequence[int]) -> None:
        """Put a pod on these GPUs."""
        for slot in slots:
            share, memory = rules.on_gpu(self.fleet, request, row, slot)
            self.fleet.take(row, slot, request, share=share, memory_mib=memory)
        self.fleet.stamp(row)
        self.fleet.free_share[row] -= request.demand.share
        self.fleet.free_cpu_millis[row] -= request.host.cpu_millis
        self.fleet.free_memory_bytes[row] -= request.host.memory_bytes
        self.fleet.free_pods[row] -= 1

    def before(self, row: int) -> Before:
        """Return a row as it is, to be restored."""
        return Before(row, tuple(getattr(self.fleet, field)[row].copy() for field in fleet.FIELDS))

    def restore(self, before: Before) -> None:
        """Put a row back as it was."""
        for field, value in zip(fleet.FIELDS, before.values, strict=True):
            getattr(self.fleet, field)[before.row] = spaces.widened(self.fleet, value) if field == "space" else value
        self.fleet.stamp(before.row)

    def takes(self, request: view.Request, row: int, slots: Sequence[int], without: Collection[PodUID]) -> bool:
        """Return whether the rules would let a pod onto these GPUs of a node if some more were gone."""
        leaving, gpus = set(without) - self.gone, self.fleet.nodes[row].gpus
        for slot in slots:
            freed = sum(tenant.share for tenant in gpus[slot].tenants if tenant.uid in leaving)
            if self.fleet.free[row, slot] + freed < min(request.demand.share, HUNDREDTHS):
                # Most ways end here: the row need not be copied.
                return False
        one = self.fleet.at(np.array([row]))
        for uid in leaving:
            leave(one, self._source, uid)
        offers = rules.offers(one, request, check_host=True)
        return bool(offers.fits[0].any()) and bool(offers.cells[0, list(slots)].all())


def copied(seen: fleet.Fleet) -> fleet.Fleet:
    """Return a fleet of its own arrays."""
    return seen.emptied(np.zeros(seen.present.shape, dtype=np.bool_))


def leave(seen: fleet.Fleet, source: ledger.Ledger, uid: PodUID) -> None:
    """Count a tenant's claim no longer in a copy."""
    claim = source.claims.get(uid)
    row = None if claim is None else seen.rows.get(claim.node)
    if claim is None or row is None:
        return
    seen.stamp(row)
    seen.free_share[row] += claim.share
    seen.free_cpu_millis[row] += claim.host.cpu_millis
    seen.free_memory_bytes[row] += claim.host.memory_bytes
    seen.free_pods[row] += 1
    for slot, gpu in enumerate(seen.nodes[row].gpus):
        for place, tenant in enumerate(gpu.tenants):
            if tenant.uid == uid:
                _free(seen, (row, slot), tenant)
                spaces.leave(seen, (row, slot), place)


def _free(seen: fleet.Fleet, cell: tuple[int, int], tenant: view.Tenant) -> None:
    seen.free[cell] += tenant.share
    seen.free_mib[cell] += tenant.memory_mib
    seen.tenants[cell] -= 1
    seen.tenants_left[cell] += 1
    suspicion.leave(seen, cell, tenant.suspect)
    if not seen.tenants[cell] and seen.circle[cell] != fleet.ANYONE:
        seen.circle[cell] = fleet.EMPTY


def without_all(seen: fleet.Fleet, held: roster.Roster, leaving: rules.Array) -> fleet.Fleet:
    """Return a copy without all of these tenants, shape (N, G, T); a node's totals are no less than they would be.

    It does not tell on how many GPUs a namespace is: that is not bounded there.
    """
    made = copied(seen)
    count = leaving.sum(axis=2)
    made.free += leavers.by_gpu(held.share, leaving).astype(made.free.dtype)
    made.free_mib += leavers.by_gpu(held.memory_mib, leaving)
    made.tenants -= count.astype(made.tenants.dtype)
    made.tenants_left += count.astype(made.tenants_left.dtype)
    suspicion.without(made, leavers.by_gpu(held.suspected, leaving))
    made.circle[(made.tenants <= 0) & (made.circle != fleet.ANYONE)] = fleet.EMPTY
    made.space[:], made.cut, made.admits = spaces.NOBODY, None, None
    made.free_share += leavers.by_node(held.tokens, leaving)
    made.free_cpu_millis += leavers.by_node(held.cpu_millis, leaving)
    made.free_memory_bytes += leavers.by_node(held.memory_bytes, leaving)
    made.free_pods += count.sum(axis=1)
    return made
