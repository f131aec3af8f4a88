"""What the pods of a gang have of each other: room, by trying all of their places, and no place in the queue."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from cotenant_extender.ledger import ledger
from cotenant_extender.packing import rules, view
from cotenant_extender.queue import order, scene

MOST = 100
"""So many places, of all pods but one, are tried with each other."""


def by_a_mate(entries: Sequence[order.Entry], *, max_wait_seconds: float, now: float) -> list[str]:
    """Return who stands before a higher priority, or has waited too long, by another pod of the same entry."""
    found, before = [], math.inf
    for entry in entries:
        found += [pod.name for pod in entry.members if pod.priority > before]
        found += [pod.name for pod in entry.members if entry.aged and now - pod.since <= max_wait_seconds]
        before = min(pod.priority for pod in entry.members)
    return found


def fit(source: ledger.Ledger, requests: Sequence[view.Request]) -> bool:
    """Whether pods fit beside each other; of many pods or GPUs: whether they do when they go in some order."""
    play = scene.Scene(source, source.seen())
    places = sorted(len(_places(play, request)) for request in requests)
    if math.prod(places[1:]) <= MOST:
        return _fit(source, play, list(requests))
    return any(_one_by_one(source, some) for some in itertools.islice(itertools.permutations(requests), 6))


def _fit(source: ledger.Ledger, play: scene.Scene, requests: list[view.Request]) -> bool:
    """Try each place of the first, with each of the others."""
    if not requests:
        return True
    for row, slots in _places(play, requests[0]):
        with_it = scene.Scene(source, play.fleet)
        with_it.put(requests[0], row, slots)
        if _fit(source, with_it, requests[1:]):
            return True
    return False


def _one_by_one(source: ledger.Ledger, requests: Sequence[view.Request]) -> bool:
    """Whether all fit, each where the policy's placement puts it."""
    play = scene.Scene(source, source.seen())
    return all(play.place(request, source.known) for request in requests)


def _places(play: scene.Scene, request: view.Request) -> list[tuple[int, tuple[int, ...]]]:
    """Every node and GPUs that take a pod."""
    offers = rules.offers(play.fleet, request, check_host=True)
    return [(int(row), offers.slots(int(row), int(column))) for row, column in np.argwhere(offers.fits)]
