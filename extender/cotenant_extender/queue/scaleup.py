"""Which new nodes would take a job: another node of a kind there is, or one with a GPU model of which there is none.

A kind is a node as it would be if it were new (see `newnodes`).

Where the cluster has no node with a model that a job may use, a node group may be scaled to zero: the models that the
job names are a kind of node then. They are not where neither a GPUNode nor the PackingPolicy ever named one of them.

Pure; node groups and the autoscaler are not known here. An autoscaler knows node totals only.
"""

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Final

import numpy as np

from cotenant_api.names import GPUModel, NodeName
from cotenant_extender.ledger import ledger, nodes
from cotenant_extender.packing import fleet, policies, rules, view
from cotenant_extender.queue import newnodes, order
from cotenant_extender.steps import Steps

REFRESH_SECONDS = 10.0
NODES_PER_STEP = 50
"""A step takes about two milliseconds: filter waits for it."""
_NONE: Final[rules.Array] = np.zeros(0, dtype=np.int64)
_SPARE: Final = 1000
"""So many kinds that are no more may have a number."""


class Growth:
    """The kinds of nodes that there are, what would fit them, and when there was another node of each.

    Attributes:
        numbering: grows when kinds have other numbers than before.
    """

    def __init__(self) -> None:
        self.numbering = 0
        self._numbers: dict[Hashable, int] = {}
        self._rows: rules.Array = _NONE
        self._nodes: fleet.Fleet | None = None
        self._refreshed = -REFRESH_SECONDS
        self._as_of = 0
        self._models: set[GPUModel] = set()
        self._fits: dict[object, rules.Array] = {}
        self._served: dict[order.Name, tuple[order.Entry, rules.Array]] = {}
        self._bearers = newnodes.Bearers()
        self._known: dict[NodeName, newnodes.Look] = {}
        self._looks: dict[NodeName, newnodes.Look] = {}
        self._grown: dict[int, float] = {}

    @property
    def count(self) -> int:
        """How many kinds have a number, from 0."""
        return len(self._numbers)

    def prepare(self, source: ledger.Ledger, policy: policies.InForce, *, now: float) -> Steps[None]:
        """Refresh in steps."""
        if not self._is_due(policy, now=now):
            return
        for count, name in enumerate(list(source.order), start=1):
            state = source.nodes.get(name)
            if state is not None and state.record is not None:
                self._bearers.see(name, state.record.labels)
            if count % NODES_PER_STEP == 0:
                yield
        naming = self._bearers.naming()
        for count, name in enumerate(list(source.order), start=1):
            state = source.nodes.get(name)
            if state is not None:
                self._looks[name] = self._looked_at(state, naming)
            if count % NODES_PER_STEP == 0:
                yield
        self.refresh(source, policy, now=now)
        yield

    def refresh(self, source: ledger.Ledger, policy: policies.InForce, *, now: float) -> None:
        """Look at the nodes again, once in a while."""
        standing = self._nodes
        if not self._is_due(policy, now=now):
            return
        self._refreshed = now
        self._fits.clear()
        self._served.clear()
        if standing is not None and standing.policy is policy and source.equipment == self._as_of:
            self._count_namespaces(source, policy)
            return
        self._as_of = source.equipment
        before, self._known = self._known, self._all_looked_at(source)
        self._looks.clear()
        found: dict[Hashable, view.Node] = {}
        for one in self._known.values():
            if one.node is not None:
                found[one.key] = newnodes.least(found.get(one.key, one.node), one.node)
        if len(self._numbers) > 2 * len(found) + _SPARE:
            self._numbers, self._grown = {}, {}
            self.numbering += 1
        self._rows = np.array([self._number(key) for key in found], dtype=np.int64)
        if standing is not None:
            self._grown.update({self._number(key): now for key in _joined(before, self._known)})
        self._models.update(gpu.model for node in found.values() for gpu in node.gpus)
        self._models.update(model for override in policy.spec.overrides for model in override.gpu_models)
        self._nodes = fleet.Fleet.of(list(found.values()), policy)
        self._count_namespaces(source, policy)

    def _count_namespaces(self, source: ledger.Ledger, policy: policies.InForce) -> None:
        """Have what namespaces hold already count for new nodes, too."""
        if self._nodes is not None and policy.spec.max_gpus_per_namespace is not None:
            self._nodes.cut = source.seen(), np.zeros(0, dtype=np.intp)

    def grown(self, kinds: rules.Array) -> rules.Array:
        """Return when there was another node of each of these kinds, in seconds since the epoch; -inf: not yet."""
        return np.array([self._grown.get(kind, -math.inf) for kind in kinds.tolist()])

    def _is_due(self, policy: policies.InForce, *, now: float) -> bool:
        standing = self._nodes
        return standing is None or standing.policy is not policy or now - self._refreshed >= REFRESH_SECONDS

    def serving(self, entry: order.Entry) -> rules.Array:
        """Return the numbers of the kinds of which new nodes would take the pods of a job; none: some pod fits none."""
        if entry.gang is None:
            return self._fitting(order.request_of(entry.members[0]))
        found = self._served.get(entry.name)
        if found is None or found[0] is not entry:
            each = [self._fitting(request) for request in entry.requests]
            kinds = np.unique(np.concatenate(each)) if all(len(one) for one in each) else _NONE
            found = self._served[entry.name] = entry, kinds
        return found[1]

    def _fitting(self, request: view.Request) -> rules.Array:
        found = self._fits.get(request.fit_key)
        if found is None:
            found = self._fits[request.fit_key] = self._asked(request)
        return found

    def _asked(self, request: view.Request) -> rules.Array:
        nodes = self._nodes
        if nodes is None:
            return _NONE
        fits = rules.offers(nodes, request, check_host=True).fits.any(axis=1)
        if fits.any():
            return self._rows[fits]
        wanted = wanted_models(request)
        if any(not wanted or model in wanted for model in nodes.models):
            return _NONE
        if wanted and self._models and not wanted & self._models:
            return _NONE
        return np.array([self._number(frozenset(wanted))])

    def _number(self, kind: Hashable) -> int:
        return self._numbers.setdefault(kind, len(self._numbers))

    def _all_looked_at(self, source: ledger.Ledger) -> dict[NodeName, newnodes.Look]:
        states = {name: source.nodes[name] for name in source.order}
        self._bearers.retain(states)
        for name, state in states.items():
            if state.record is not None:
                self._bearers.see(name, state.record.labels)
        naming = self._bearers.naming()
        return {name: self._looked_at(state, naming) for name, state in states.items()}

    def _looked_at(self, state: nodes.NodeState, naming: frozenset[str]) -> newnodes.Look:
        return newnodes.look(state, naming, self._looks.get(state.name) or self._known.get(state.name))


def _joined(before: Mapping[NodeName, newnodes.Look], after: Mapping[NodeName, newnodes.Look]) -> Iterator[Hashable]:
    """Yield the kinds of which there is a node that was not there, or was of another kind."""
    for name, one in after.items():
        known = before.get(name)
        if one.node is not None and (known is None or known.key != one.key):
            yield one.key


def wanted_models(request: view.Request) -> set[GPUModel]:
    """Return the models that a pod may use; empty: any."""
    demand = request.demand
    predicted = set() if demand.predicted is None else set(demand.predicted.by_gpu)
    if not demand.gpu_models:
        return predicted
    return set(demand.gpu_models & predicted) if predicted else set(demand.gpu_models)
