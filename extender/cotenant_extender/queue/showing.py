"""Choose the jobs that are shown to an autoscaler, in turns.

A job is shown by lifting its gates without an earmark: then kube-scheduler reports it unschedulable. No gate can be put
back, so what is shown stays visible; what is limited is how many pods are shown in a turn.

Turns are counted for each kind of new node (see `scaleup`): at most `LIMIT` pods that such a node would take are shown
in one turn of the kind. A job is shown in the order of the queue while any kind that would take it has room. So pods of
a kind that is never served keep no job of another kind from being shown.

A turn ends when a job waits for the next one, as all of its kinds are full, and no node of the kind has come for
`PATIENCE_SECONDS`. Pods whose turn is over are still visible and keep their place in the queue, but count no more. Each
turn in vain lasts twice as long as the one before: else all that wait would become pods that kube-scheduler tries again
and again. A node of the kind that comes gives the present turn `PATIENCE_SECONDS` again.
"""

import enum
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cotenant_extender.ledger import ledger
from cotenant_extender.packing import policies, rules
from cotenant_extender.queue import columns, earmarking, line, order, scaleup
from cotenant_extender.steps import Steps

LIMIT = 256
"""Pods shown in one turn of a kind: kube-scheduler tries each again whenever something changes."""
PATIENCE_SECONDS = 900.0
"""As long as cluster-autoscaler waits for a node by default (`--max-node-provision-time`)."""
MAX_VAIN = 16
LOOK_SECONDS = 1.0
LIFT_SECONDS = 30.0
"""A lift that the pod does not show by then has failed."""


class Standing(enum.Enum):
    """What an autoscaler is shown of a job that waits."""

    HIDDEN = enum.auto()
    """Nothing: no new node would take it, or it has not waited for long enough."""
    LATER = enum.auto()
    """Nothing yet: others are shown first."""
    SHOWN = enum.auto()
    OVER = enum.auto()
    """It is visible, but its turn is over, and no node has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Who waits.

    Attributes:
        columns: the entries of the line as arrays.
        stuck: whether an entry was tried in vain, and nobody is leaving for it.
    """

    line: line.Line
    columns: columns.Columns
    stuck: Callable[[order.Entry], bool]


class _Turns:
    """The present turn of every kind, by its number.

    Attributes:
        begun: shape (K,), when it began; what was shown before counts no more.
        full_since: shape (K,), since when others wait for the next; inf: nobody does.
        vain: shape (K,), how many turns before it brought no node.
    """

    def __init__(self, numbering: int = 0) -> None:
        self.numbering = numbering
        self.begun: rules.Array = np.zeros(0)
        self.full_since: rules.Array = np.zeros(0)
        self.vain: rules.Array = np.zeros(0, dtype=np.int64)

    def cover(self, count: int) -> None:
        """Have a turn for so many kinds."""
        self.begun = _longer(self.begun, count, -math.inf)
        self.full_since = _longer(self.full_since, count, math.inf)
        self.vain = _longer(self.vain, count, 0)

    def end(self, contested: rules.Array, grown: rules.Array, *, now: float) -> None:
        """End the turns of kinds of which no node has come for long enough.

        Args:
            contested: shape (C,), the kinds for whose next turn others wait.
            grown: shape (C,), when the last node of each came.
            now: seconds since the epoch.
        """
        since = np.minimum(self.full_since[contested], now)
        self.full_since[:] = math.inf
        self.full_since[contested] = since
        self.vain[contested[grown > self.begun[contested]]] = 0
        patience = PATIENCE_SECONDS * 2.0 ** np.minimum(self.vain[contested], MAX_VAIN)
        over = contested[now - np.maximum(since, grown) >= patience]
        self.begun[over], self.full_since[over] = now, math.inf
        self.vain[over] += 1


class Showing:
    """What is shown. A new leader counts the pods that it finds without a gate from when it first looks."""

    def __init__(self) -> None:
        self._growth, self._turns = scaleup.Growth(), _Turns()
        self._since: dict[order.Name, float] = {}
        self._lifting: dict[order.Name, float] = {}
        self._again = -math.inf

    def prepare(self, source: ledger.Ledger, policy: policies.InForce, *, now: float) -> Steps[None]:
        """Look at the nodes in steps, so that `lifts` has not to do it at once."""
        yield from self._growth.prepare(source, policy, now=now)

    def lifts(
        self, source: ledger.Ledger, policy: policies.InForce, waiting: Waiting, *, now: float
    ) -> list[earmarking.Lift]:
        """Return the pods to show now; none within `LOOK_SECONDS` of the last time."""
        if now < self._again:
            return []
        self._again = now + LOOK_SECONDS
        self._growth.refresh(source, policy, now=now)
        self._follow()
        self._note(source, waiting, now=now)
        found, after = waiting.columns, policy.spec.queue.scale_up_after_seconds
        places = np.flatnonzero(found.gated & ~found.barred & (found.since <= now - after))
        made, contested = self._made(waiting, places, self._counts(waiting, places), now=now)
        full = np.array(sorted(contested), dtype=np.int64)
        self._turns.end(full, self._growth.grown(full), now=now)
        return made

    def standing(self, entry: order.Entry, policy: policies.InForce, *, now: float) -> Standing:
        """Return what an autoscaler is shown of a job."""
        self._follow()
        serving = self._growth.serving(entry)
        if not len(serving) or now - entry.since < policy.spec.queue.scale_up_after_seconds:
            return Standing.HIDDEN
        self._turns.cover(self._growth.count)
        if entry.gated:
            full = bool(np.isfinite(self._turns.full_since[serving]).all())
            return Standing.LATER if full and entry.name not in self._lifting else Standing.HIDDEN
        counts = self._turns.begun[serving] <= self._since.get(entry.name, math.inf)
        return Standing.SHOWN if counts.any() else Standing.OVER

    def _follow(self) -> None:
        """Begin the turns anew where the kinds have other numbers than before."""
        if self._turns.numbering != self._growth.numbering:
            self._turns = _Turns(self._growth.numbering)

    def _made(
        self, waiting: Waiting, places: rules.Array, counts: rules.Array, *, now: float
    ) -> tuple[list[earmarking.Lift], set[int]]:
        """Return the pods to show, and the kinds that are full for others.

        Of pods that are alike one in vain is enough.
        """
        made: list[earmarking.Lift] = []
        contested: set[int] = set()
        in_vain: set[int] = set()
        for place, alike in zip(places.tolist(), waiting.columns.kind[places].tolist(), strict=True):
            if alike in in_vain:
                continue
            entry = waiting.line.entries[place]
            if entry.name in self._lifting:
                continue
            serving = self._growth.serving(entry)
            if not len(serving) or (counts[serving] >= LIMIT).all():
                contested.update(serving.tolist())
                in_vain.update(() if alike == columns.NO_KIND else (alike,))
            elif waiting.stuck(entry):
                made.extend(earmarking.Lift(record=one, earmark=None) for one in entry.members if one.gates)
                self._lifting[entry.name] = self._since[entry.name] = now
                counts[serving] += len(entry.members)
        return made, contested

    def _note(self, source: ledger.Ledger, waiting: Waiting, *, now: float) -> None:
        """Note since when jobs are shown; forget jobs that are placed or gone, and lifts that failed."""
        known, index = waiting.line.get, source.index
        self._lifting = {
            name: since
            for name, since in self._lifting.items()
            if (entry := known(name)) is not None and entry.gated and now - since < LIFT_SECONDS
        }
        self._since = {
            name: since for name, since in self._since.items() if name in index.pending or name in index.gangs
        }
        for place in np.flatnonzero(~waiting.columns.gated).tolist():
            self._since.setdefault(waiting.line.entries[place].name, now)

    def _counts(self, waiting: Waiting, places: rules.Array) -> rules.Array:
        """Count the pods in the present turn of each kind, shape (K,): those without a gate, and those being lifted.

        The jobs that may be shown, at `places`, are looked at first, so that every kind has its number.
        """
        entries, kinds = waiting.line.entries, waiting.columns.kind[places]
        alone, first = np.unique(kinds, return_index=True)
        for place in (*places[first[alone != columns.NO_KIND]].tolist(), *places[kinds == columns.NO_KIND].tolist()):
            self._growth.serving(entries[place])
        lifting = [entry for name in self._lifting if (entry := waiting.line.get(name)) is not None]
        shown = [*(entries[place] for place in np.flatnonzero(~waiting.columns.gated).tolist()), *lifting]
        pods: Counter[tuple[int, float]] = Counter()
        serving = {}
        for entry in shown:
            found = self._growth.serving(entry)
            serving[id(found)] = found
            pods[id(found), self._since.get(entry.name, math.inf)] += len(entry.members)
        self._turns.cover(self._growth.count)
        counts: rules.Array = np.zeros(self._growth.count, dtype=np.int64)
        for (which, since), count in pods.items():
            numbers = serving[which]
            counts[numbers[self._turns.begun[numbers] <= since]] += count
        return counts


def _longer(values: rules.Array, count: int, fill: float) -> rules.Array:
    """Values for so many kinds."""
    missing = count - len(values)
    return np.concatenate([values, np.full(missing, fill, dtype=values.dtype)]) if missing > 0 else values
