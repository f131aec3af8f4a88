"""Seats for a job's pods beside each other: for all of them, or for none. Pure.

Pods go one after the other in one order, which holds wherever a job of several pods is placed: who has the fewest
places first, of those the largest. Each gets the place that the policy's placement puts highest. Where one then finds
none, the last of those that may be in its way is tried on its next place, and so on, up to a number of tries: filter
waits meanwhile. Pods that are alike leave each other as many places whichever they take, unless it is bounded on how
many GPUs their namespace may be; so they are not tried elsewhere for each other's sake.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cotenant_api.names import NodeName
from cotenant_extender.packing import fleet, knowledge, looks, rules, view
from cotenant_extender.queue import scene

MOST_TRIES = 128
LEAST_TRIES = 16
CELLS = 200_000
"""GPUs that are looked at in further tries: about 10 milliseconds."""


class Seat(NamedTuple):
    """GPUs of a node, by row and columns."""

    row: int
    slots: tuple[int, ...]


def in_order(seen: looks.Looks, requests: Sequence[view.Request]) -> list[int]:
    """Return which of a job's pods is placed first, second, ..; pods that are alike go one after the other."""
    known = {seen.kind(request): request for request in requests}
    places = {kind: int(seen.offers(request).fits.sum()) for kind, request in known.items()} if len(known) > 1 else {}
    first = {kind: number for number, kind in enumerate(known)}

    def key(number: int) -> tuple[int, int, int, int]:
        kind = seen.kind(requests[number])
        return places.get(kind, 0), -requests[number].demand.share, first[kind], number

    return sorted(range(len(requests)), key=key)


def seats(
    play: scene.Scene,
    requests: Sequence[view.Request],
    known: knowledge.Knowledge,
    *,
    avoided: Sequence[NodeName | None] = (),
) -> list[Seat] | None:
    """Seat all pods of a job in a scene, which is not to be used any more where there are no seats.

    `avoided`: for each pod a node that is tried last, where kube-scheduler refused it.
    """
    order = in_order(play.looks, requests)
    kinds = [play.looks.kind(requests[number]) for number in order]
    bounded = play.fleet.policy.spec.max_gpus_per_namespace is not None
    again = bounded or len(set(kinds)) > 1
    tries = len(order) + min(max(CELLS // max(play.fleet.present.size, 1), LEAST_TRIES), MOST_TRIES)
    taken: list[tuple[Seat, scene.Before | None]] = []
    choices: list[Iterator[Seat]] = []
    while len(taken) < len(order) and tries:
        number, first = order[len(taken)], len(choices) == len(taken)
        if first:
            choices.append(_places(play, requests[number], known, avoided[number] if avoided else None))
        seat = next(choices[-1], None)
        if seat is not None:
            tries -= 1
            before = play.before(seat.row) if again else None
            play.put(requests[number], seat.row, seat.slots)
            taken.append((seat, before))
            continue
        if not again or not _step_back(play, taken, choices, kinds, alike=first and not bounded):
            return None
    if len(taken) < len(order):
        return None
    found = {number: seat for number, (seat, _) in zip(order, taken, strict=True)}
    return [found[number] for number in range(len(order))]


def _step_back(
    play: scene.Scene,
    taken: list[tuple[Seat, scene.Before | None]],
    choices: list[Iterator[Seat]],
    kinds: Sequence[object],
    *,
    alike: bool,
) -> bool:
    """Give up the last seat, or `alike`: all those at the end of pods like the one that has none; whether any is left.

    The pod that had the seat is tried on its next place.
    """
    stuck = kinds[len(taken)]
    while taken:
        choices.pop()
        _, before = taken.pop()
        if before is not None:
            play.restore(before)
        if not (alike and kinds[len(taken)] == stuck):
            return True
    return False


def _places(
    play: scene.Scene, request: view.Request, known: knowledge.Knowledge, avoided: NodeName | None
) -> Iterator[Seat]:
    """Places of a pod, the best first, of equal ones the first in strict order; of equal GPUs of one node only one.

    The next one is asked for when the scene is again as it was at the first.
    """
    offers, scores = play.looks.scored(request, known)
    if not offers.fits.any():
        return
    last = play.fleet.rows.get(avoided, -1) if avoided is not None else -1
    best = int(np.where(_elsewhere(offers.fits, last), scores, -np.inf).argmax())
    yield _seat(offers, best)
    offers, scores = play.looks.scored(request, known)
    places = np.flatnonzero(offers.fits)
    ranked = places[np.lexsort((-np.asarray(scores).flat[places], places // offers.fits.shape[1] == last))]
    seen = {_alike(play, _seat(offers, best))}
    for seat in [_seat(offers, place) for place in ranked[: 8 * MOST_TRIES].tolist()]:
        alike = _alike(play, seat)
        if alike not in seen:
            seen.add(alike)
            yield seat


def _elsewhere(fits: rules.Array, last: int) -> rules.Array:
    """Where it fits but for the row that is tried last, -1: none; where it fits if that is nowhere."""
    if last < 0:
        return fits
    found: rules.Array = fits.copy()
    found[last] = False
    return found if found.any() else fits


def _seat(offers: rules.Offers, place: int) -> Seat:
    row, column = divmod(place, offers.fits.shape[1])
    return Seat(row, offers.slots(row, column))


def _alike(play: scene.Scene, seat: Seat) -> Hashable:
    """Return the same for seats which leave the same to others."""
    columns = [getattr(play.fleet, field)[seat.row] for field in fleet.OF_GPUS]
    return seat.row, tuple(b"".join(column[slot].tobytes() for column in columns) for slot in seat.slots)
