"""Ways to make room for a pod, by arrays: GPUs and who would leave them, those that look cheapest first. Pure.

They may not work in the end: the rules are asked of each, see `preemption`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cotenant_api.names import PodUID
from cotenant_extender.packing import fleet, rules, spaces, suspicion
from cotenant_extender.queue import leavers, roster

LOOKED_AT = 32
"""GPUs, or nodes for several whole GPUs, that victims are looked for on: single tenants, and the cheapest of each."""
GIVEN = 4 * LOOKED_AT
"""Ways that are given at most: those of a pod serve the others of its gang that are alike."""
_NEVER = 1_000_000
_NOTHING = -(2**62)

Way = tuple[int, tuple[int, ...], list[PodUID]]
"""Row and GPUs of a node, and who would leave."""


class Ground(NamedTuple):
    """What is looked at.

    Attributes:
        seen: the fleet without those who have left in the search so far.
        held: the tenants, whoever has left.
        now: in seconds since the epoch.
    """

    seen: fleet.Fleet
    held: roster.Roster
    now: float


def on_one(
    ground: Ground, offers: rules.Offers, mask: rules.Array, *, beyond: int, short: rules.Array
) -> Iterator[Way]:
    """GPUs and who would leave each, those that look cheapest first.

    `beyond`: how many GPUs the pod's namespace is to give up if it is to be on one more; it is on all of these now.
    `short`: shape (N,), nodes that are short of something else, so that nobody may have to leave the GPU.
    """
    cells = np.nonzero(offers.fits)
    held, leaving = ground.held, leavers.by_tenant(mask, cells)
    pods, lost = leavers.by_tenant(held.pods, cells), ground.now - leavers.by_tenant(held.started, cells)
    options = [np.zeros_like(leaving), *leavers.singles(leaving), *leavers.prefixes(leaving, held, cells)]
    looks: list[rules.Array] = []
    for number, (option, enough) in enumerate(
        zip(options, _enough(ground, offers, options, cells, beyond=beyond), strict=True)
    ):
        place = np.flatnonzero(enough & (option.any(axis=0) | (short[cells[0]] & (number == 0))))
        some = option[:, place]
        costs = leavers.total(pods[:, place], some), leavers.total(lost[:, place], some)
        looks.append(np.stack([*costs, place, np.full(len(place), number)]))
    look = np.concatenate(looks, axis=1)
    for place, number in look[2:, np.lexsort(look[::-1])[:GIVEN]].T.astype(int):
        row, slot = int(cells[0][place]), int(cells[1][place])
        uids = held.uids[row][slot]
        yield row, (slot,), [uid for uid, leaves in zip(uids, options[number][:, place], strict=False) if leaves]


def _enough(
    ground: Ground,
    offers: rules.Offers,
    options: Sequence[rules.Array],
    cells: tuple[rules.Array, ...],
    *,
    beyond: int,
) -> Iterator[rules.Array]:
    """Yield whether it looks as if it were enough that these leave, shape (C,), for each option."""
    seen, held = ground.seen, ground.held
    lacks = (np.broadcast_to(offers.needs.share, seen.free.shape) - seen.free)[cells]
    memory = np.broadcast_to(offers.needs.memory_mib, seen.free.shape)[cells]
    lacks_mib = np.where(memory == 0, _NOTHING, memory - seen.free_mib[cells])
    shares, memories = leavers.by_tenant(held.share, cells), leavers.by_tenant(held.memory_mib, cells)
    tenants, tenants_left = seen.tenants[cells], seen.tenants_left[cells]
    suspects, suspected = seen.suspects[cells], leavers.by_tenant(held.suspected, cells)
    strange = suspicion.strange(seen, offers.request.demand.suspect)[cells]
    friends = np.isin(seen.circle[cells], (fleet.EMPTY, fleet.ANYONE, *seen.circles(offers.request)))
    own = leavers.by_tenant(spaces.of(seen, offers.request.demand.namespace), cells)
    for option in options:
        count = np.add.reduce(option, axis=0, dtype=np.int32)
        yield (beyond <= 1 or leavers.stays(own, option)) & (
            (leavers.total(shares, option) >= lacks)
            & (leavers.total(memories, option) >= lacks_mib)
            & (tenants_left + count > 0)
            & ((tenants - count <= 0) | friends)
            & (~strange | (suspects - leavers.total(suspected, option) <= 0))
        )


def on_several(
    ground: Ground, offers: rules.Offers, mask: rules.Array, *, own: rules.Array, beyond: int
) -> Iterator[Way]:
    """Nodes, n GPUs of each, and who would leave, those that look cheapest first.

    `beyond`: so many of them are to be `own`, shape (N, G): GPUs that the pod's namespace gives up.
    """
    held = ground.held
    pods = np.where(offers.cells, (held.pods * mask).sum(axis=2), _NEVER)
    lost = ((ground.now - held.started) * mask).sum(axis=2)
    given_up = own & (np.argsort(np.lexsort((lost, pods, ~own), axis=1), axis=1) < beyond)
    by_cost = np.lexsort((lost, pods, ~given_up), axis=1)[:, : offers.gpus]
    total = np.take_along_axis(pods, by_cost, axis=1).sum(axis=1)
    time = np.take_along_axis(lost, by_cost, axis=1).sum(axis=1)
    rows = np.flatnonzero(offers.fits[:, 0] & (total < _NEVER))
    for place in np.lexsort((rows, time[rows], total[rows]))[:LOOKED_AT]:
        row = int(rows[place])
        slots = tuple(sorted(int(slot) for slot in by_cost[row]))
        leaving = [
            uid for slot in slots for uid, leaves in zip(held.uids[row][slot], mask[row, slot], strict=False) if leaves
        ]
        yield row, slots, leaving
