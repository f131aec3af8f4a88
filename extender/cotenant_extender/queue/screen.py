"""Which kinds of request may fit at all: asked for all that wait at once, so that only these are tried one by one.

It never says no to what the rules of packing would take: it looks at models, shares, memory, tenancy and holds of GPUs
that are open, and at nothing of their nodes. The rules have the last word. It decides nothing else.
"""

from collections.abc import Hashable, Iterator

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender import records
from cotenant_extender.packing import fleet, needs, rules, view
from cotenant_extender.queue import order

NEVER = HUNDREDTHS + 1
_SLACK = 256


class Kinds:
    """Requests that are taken and refused alike, numbered; what each needs on each GPU model.

    Attributes:
        share: shape (K, M), hundredths needed on one GPU; `NEVER` where the model is refused.
        memory_mib: shape (K, M), MiB to be free at least.
        home: shape (K,), number of the tenancies that the kind belongs to.
        homes: one request of each.
    """

    def __init__(self, seen: fleet.Fleet) -> None:
        self._policy, self._models = seen.policy, list(seen.models)
        self._ids: dict[Hashable, int] = {}
        self._homes: dict[Hashable, int] = {}
        self.homes: list[view.Request] = []
        self.share: rules.Array = np.zeros((0, len(self._models)), dtype=np.int64)
        self.memory_mib: rules.Array = np.zeros((0, len(self._models)), dtype=np.int64)
        self.home: rules.Array = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    def stands(self, seen: fleet.Fleet) -> bool:
        """Return whether what was found out for another state of the fleet is still what is needed."""
        return self._policy is seen.policy and len(self._models) == len(seen.models)

    def of(self, record: records.Pod) -> int:
        """Return the number of a pod's kind."""
        request = order.request_of(record)
        label = self._policy.spec.tenancy_label
        home = request.demand.namespace, None if label is None else record.labels.get(label)
        found = self._ids.get((request.fit_key, home))
        if found is None:
            found = self._ids[request.fit_key, home] = len(self._ids)
            if home not in self._homes:
                self._homes[home] = len(self._homes)
                self.homes.append(request)
            self._add(found, request, self._homes[home])
        return found

    def least_share(self, among: rules.Array) -> int:
        """Return the fewest hundredths that any of these kinds, shape (K,), needs on any model.

        `NEVER` where none may go.
        """
        return int(self.share[: len(self)][among].min(initial=NEVER))

    def _add(self, number: int, request: view.Request, home: int) -> None:
        if number >= len(self.home):
            grown = number + _SLACK + number // 2
            self.share = np.resize(self.share, (grown, len(self._models)))
            self.memory_mib = np.resize(self.memory_mib, (grown, len(self._models)))
            self.home = np.resize(self.home, grown)
        for column, model in enumerate(self._models):
            need = needs.need(request.demand, model, self._policy)
            self.share[number, column] = need.share if isinstance(need, needs.Need) else NEVER
            self.memory_mib[number, column] = _memory(need) if isinstance(need, needs.Need) else 0
        self.home[number] = home


def _memory(need: needs.Need) -> int:
    """Shares of a GPU's own memory are left to the rules: GPUs of one model may differ."""
    return need.memory_mib if need.memory_checked and need.memory_mib is not None else 0


def may_fit(seen: fleet.Fleet, kinds: Kinds, rows: rules.Array | None = None) -> dict[int, rules.Array]:
    """By code of the hold, 0 for none: shape (K,), whether a GPU on any of these rows, so held, may take the kind."""
    found: dict[int, rules.Array] = {0: np.zeros(len(kinds), dtype=np.bool_)}
    for (model, circle, hold), free, memory in _groups(seen, rows):
        share, wanted = kinds.share[: len(kinds), model], kinds.memory_mib[: len(kinds), model]
        place = np.searchsorted(-free, -share, side="right") - 1
        takes = (place >= 0) & (memory[place] >= wanted)
        if circle not in (fleet.EMPTY, fleet.ANYONE):
            at_home = np.array([circle in seen.circles(request) for request in kinds.homes], dtype=np.bool_)
            takes &= at_home[kinds.home[: len(kinds)]]
        found[hold] = found.get(hold, False) | takes
    return found


def _groups(
    seen: fleet.Fleet, rows: rules.Array | None
) -> Iterator[tuple[tuple[int, int, int], rules.Array, rules.Array]]:
    """Open GPUs by model, tenancy and hold: free hundredths, most first; and the most MiB free on any with as many."""
    here: slice | rules.Array = slice(None) if rows is None else rows
    free, circles = seen.free[here], seen.circle[here]
    usable = seen.present[here] & (seen.closed[here] == 0) & (seen.tenants_left[here] > 0) & (free > 0)
    usable &= circles != fleet.MIXED
    usable &= ((seen.node_closed[here] == 0) & seen.schedulable[here])[:, None]
    if not usable.any():
        return
    keys = [field[usable] for field in (seen.model[here], circles, seen.hold[here])]
    free, memory = free[usable], seen.free_mib[here][usable]
    by_free = np.lexsort((-free, *reversed(keys)))
    models, circles, holds = (key[by_free] for key in keys)
    free, memory = free[by_free], memory[by_free]
    other = (models[1:] != models[:-1]) | (circles[1:] != circles[:-1]) | (holds[1:] != holds[:-1])
    start = 0
    for end in (*(np.flatnonzero(other) + 1).tolist(), len(free)):
        key = int(models[start]), int(circles[start]), int(holds[start])
        yield key, free[start:end], np.maximum.accumulate(memory[start:end])
        start = end
