"""A queue without memory as the judge of one with: what it would do at once, the other must not hold back.

A queue remembers what did not fit, so that a pass follows what changed. It may forget more than it has to, and never
remember what is no longer so. Both queues work on copies of the ledger, on which nothing is lifted or evicted.
"""

import io
import math
import pickle
from collections.abc import Mapping
from typing import Any

from cotenant_extender.ledger import ledger
from cotenant_extender.packing import knowledge
from cotenant_extender.queue import planning, searches
from extender import room

STEP_SECONDS = searches.DELAY_SECONDS + 0.01
"""A search for victims may begin in every pass that is so much later than the one before."""
DUE_SECONDS = searches.SECONDS + 0.01
"""After this, victims may be looked for again for everybody."""
MOST_ROUNDS = 500


def held_back(source: ledger.Ledger, queue: planning.Queue, *, now: float) -> list[str]:
    """Return what a queue without memory would do although this one, left to itself, does nothing more.

    Both decide until victims have been looked for, for all who may have some. Setbacks, holds and preemptions under way
    are the same for both. The jobs for which neither finds victims, and should, are told first (see `room`).
    """
    copied, living, began, later = _at_rest(source, queue, now=now)
    denied = room.denied(copied, living, now=began)
    if denied or not _decided(copied, _without_memory(living), now=later)[1]:
        return denied
    # It does something: what that is, and whether the other does nothing, is asked of copies that are as before.
    copied, living, _, later = _at_rest(source, queue, now=now)
    other, remembering = _copied(copied, living)
    when, found = _decided(other, _without_memory(remembering), now=later)
    # What time alone brings, as the end of a budget's backoff, may come to the other a moment later. Meanwhile a job
    # may have waited too long, so that GPUs are held for it: then the two cannot be compared.
    holds = set(copied.holds)
    held = bool(found) and not _decided(copied, living, now=when)[1] and set(copied.holds) == holds
    return [f"a queue without memory {what}, and this one never does" for what in found] if held else []


def _at_rest(
    source: ledger.Ledger, queue: planning.Queue, *, now: float
) -> tuple[ledger.Ledger, planning.Queue, float, float]:
    """Return copies of which the queue does nothing more, from when on, and until when that was looked at.

    While that is looked at a job may have waited too long, so that GPUs are held for it, or for no other any more: then
    some who had their turn before may have victims now, and have another turn.
    """
    copied, living = _copied(source, queue)
    for _ in range(MOST_ROUNDS):
        began, held = now, _held_gpus(copied)
        now, found = _decided(copied, living, now=now)
        if not found and _held_gpus(copied) == held:
            return copied, living, began, now
    raise AssertionError(f"the queue does not come to rest: {found or held}")


def _decided(source: ledger.Ledger, queue: planning.Queue, *, now: float) -> tuple[float, list[str]]:
    """Let a queue decide until it does something, or has looked for victims for all; when that is, and what it does."""
    found = _done(source, queue, now=now)
    preemptors = 0 if found else _preemptors(source, queue, now=now)
    # Each has its turn, gives way once, which is another turn for those ahead of it, and has its turn again.
    for wait in (DUE_SECONDS, *[STEP_SECONDS] * 3 * preemptors) if preemptors else ():
        now += wait
        found = _done(source, queue, now=now)
        if found:
            break
    return now, found


def _preemptors(source: ledger.Ledger, queue: planning.Queue, *, now: float) -> int:
    """How many wait for whom victims may be looked for."""
    held = [source.pods[uid].priority for uid, claim in source.claims.items() if claim.bookings and uid in source.pods]
    lowest = min(held, default=2**31)
    waiting = queue.line.entries
    return sum(1 for entry in waiting if entry.priority > lowest and not queue.preemptions.settled(entry.name, now=now))


def _done(source: ledger.Ledger, queue: planning.Queue, *, now: float) -> list[str]:
    """What a queue does at one time, in passes up to the first in which it does anything."""
    assert source.policy is not None
    for _ in range(MOST_ROUNDS):
        before, held = source.version, _held(source)
        plan = queue.plan(source, source.policy, now=now)
        found = [f"places {lift.record.name}" for lift in plan.lifts if lift.earmark is not None]
        for eviction in plan.evictions:
            names = ", ".join(victim.name for victim in eviction.victims)
            found.append(f"evicts {names} for {eviction.preemptor.name}")
        # Nobody else may take what is held for those who wait for pods that are leaving.
        found = found or [f"holds GPUs for {name}" for name in sorted(_held(source) - held)]
        if found or (source.version == before and not plan.cut):
            return found
    raise AssertionError("the ledger changes for ever, although nothing is placed")


def _held(source: ledger.Ledger) -> set[str]:
    """For which pods GPUs are held while others leave."""
    return {", ".join(sorted(hold.holders)) for hold in source.holds if hold.since == -math.inf}


def _held_gpus(source: ledger.Ledger) -> set[tuple[frozenset[str], frozenset[str]]]:
    """For whom which GPUs are held, whatever for."""
    return {(hold.holders, frozenset().union(*gpus.values())) for hold, gpus in source.holds.items()}


def _without_memory(living: planning.Queue) -> planning.Queue:
    """A queue that knows only what another has decided: whose GPUs are held, and who waits for victims."""
    fresh = planning.Queue()
    fresh.preemptions, fresh.reservation = living.preemptions, living.reservation
    return fresh


def _copied(source: ledger.Ledger, queue: planning.Queue) -> tuple[ledger.Ledger, planning.Queue]:
    """Return copies of both, which share frozen values with the originals.

    What placements have learned is left behind: it says which GPU is better, and never which one takes a pod.
    """
    seen = source.seen()
    shared: list[Any] = [source.policy, *source.pods.values(), *source.claims.values(), *source.graves.pods.values()]
    shared += [part for state in source.nodes.values() for part in (state.record, state.agent)]
    shared += [*seen.nodes, *(gpu for node in seen.nodes for gpu in node.gpus)]
    shared += [*queue.line.entries, *(member for entry in queue.line.entries for member in entry.members)]
    shared += [earmark for _, earmark in source.earmarks.items()]
    kept = {id(value): value for value in shared}
    kept[id(source.known)] = knowledge.Knowledge(speeds=source.known.speeds)
    written = io.BytesIO()
    _Writer(written, kept).dump((source, queue))
    found: tuple[ledger.Ledger, planning.Queue] = _Reader(io.BytesIO(written.getvalue()), kept).load()
    return found


class _Writer(pickle.Pickler):
    """Writes all but values that are kept, of which it writes the id: five times as fast as `copy.deepcopy`."""

    def __init__(self, file: io.BytesIO, kept: Mapping[int, object]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._kept = kept

    def persistent_id(self, value: object) -> int | None:
        """The id of a kept value."""
        return id(value) if id(value) in self._kept else None


class _Reader(pickle.Unpickler):
    """Reads what `_Writer` wrote."""

    def __init__(self, file: io.BytesIO, kept: Mapping[int, object]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, number: int) -> object:
        """A kept value."""
        return self._kept[number]
