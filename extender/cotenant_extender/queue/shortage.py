"""Why a job is expected to start nowhere, however long it waits: in words, with the remedy. Pure."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from cotenant_extender.packing import fleet, looks, rules, view
from cotenant_extender.queue import forecast, seating

NO_GPU: Final = "as none that it could use is expected to become free"
_MIB: Final = 2**20


def words(field: forecast.Field, job: Sequence[view.Request]) -> str:
    """Say what a job lacks: the first of its pods that nodes have too little for, else all of them together."""
    beside, kinds = forecast.beside_lasting(field), forecast.kinds(job)
    for request, offers in zip(kinds, forecast.taking(field, kinds), strict=True):
        rows = offers.fits.any(axis=1)
        lacks = _lacks(request, beside[rows]) if rows.any() else ""
        if lacks:
            return f"as {lacks} beside pods that never end: request less of it, or move such pods to other nodes"
        if not rows.any():
            return NO_GPU
    if len(job) == 1:
        return NO_GPU
    return (
        f"as nodes never have enough for all {len(job)} pods at once beside pods that never end: request less, or fewer"
    )


def room(seen: fleet.Fleet, requests: Sequence[view.Request]) -> int:
    """Return how many of a job's pods would find room if all GPUs were empty, one after the other (`seating`)."""
    emptied = seen.emptied()
    emptied.free_share[:] = np.iinfo(np.int64).max
    beside = looks.Looks(emptied, check_host=False)
    ordered = [requests[number] for number in seating.in_order(beside, requests)]
    for count, request in enumerate(ordered):
        offers = beside.offers(request)
        allowed = emptied.schedulable & emptied.allowed(request.constraints)
        takes = allowed & (offers.cells.sum(axis=1) >= offers.gpus)
        if not takes.any():
            return count
        row = int(takes.argmax())
        for slot in np.flatnonzero(offers.cells[row])[: offers.gpus].tolist():
            share, memory = offers.needs.at(row, slot)
            emptied.take(row, slot, request, share=share, memory_mib=memory)
    return len(requests)


def _lacks(request: view.Request, beside: rules.Array) -> str:
    """Say what no node has for a pod, of what N nodes have, shape (N, 3); empty: one has all of it."""
    host, most = request.host, beside.max(axis=0).tolist()
    if (beside >= np.array((host.cpu_millis, host.memory_bytes, 1))).all(axis=1).any():
        return ""
    if most[2] < 1:
        return "no node that it may use takes another pod"
    cpu, memory = f"{host.cpu_millis / 1000:g} CPUs", f"{-(-host.memory_bytes // _MIB)} MiB of memory"
    short = []
    if host.cpu_millis > most[0]:
        short.append((cpu, f"{max(most[0], 0) / 1000:g} CPUs"))
    if host.memory_bytes > most[1]:
        short.append((memory, f"{max(most[1], 0) // _MIB} MiB"))
    if not short:
        return f"no node that it may use has {cpu}, {memory} and room for a pod at once"
    wanted, there = (" and ".join(parts) for parts in zip(*short, strict=True))
    return f"it requests {wanted}, and no node that it may use has more than {there}"
