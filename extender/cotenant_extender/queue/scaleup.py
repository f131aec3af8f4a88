"""Which new nodes would take a job: another node of a kind there is, or one with a GPU model of which there is none.

A kind is a node as it would be if it were new: its own labels but the host name, its taints but those that Kubernetes
or Cotenant set while it starts, its GPUs healthy and empty, and nothing on its host: what daemons take there, the
autoscaler knows.

Where the cluster has no node with a model that a job may use, a node group may be scaled to zero: the models that the
job names are a kind of node then. They are not where neither a GPUNode nor the PackingPolicy ever named one of them.

Pure; node groups and the autoscaler are not known here. An autoscaler knows node totals only.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from cotenant_api import gpunode
from cotenant_api.names import HUNDREDTHS, GPUModel, NodeName
from cotenant_extender import records
from cotenant_extender.ledger import ledger, nodes
from cotenant_extender.packing import fleet, policies, rules, view
from cotenant_extender.queue import order
from cotenant_extender.steps import Steps

REFRESH_SECONDS = 10.0
NODES_PER_STEP = 50
"""A step takes about two milliseconds: filter waits for it."""
_HOST_NAME = "kubernetes.io/hostname"
_PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "cotenant.dev/")


class _Kind(NamedTuple):
    """A node as it would be if it were new, and what all of its kind have in common."""

    key: Hashable
    node: view.Node


_Look = tuple[object, object, _Kind | None]
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
        self._known: dict[NodeName, _Look] = {}
        self._looks: dict[NodeName, _Look] = {}
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
            if state is not None:
                self._looks[name] = self._looked_at(state)
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
        before, self._known = self._known, {name: self._looked_at(source.nodes[name]) for name in source.order}
        self._looks.clear()
        found = {kind.key: kind.node for *_, kind in reversed(self._known.values()) if kind is not None}
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

    def _looked_at(self, state: nodes.NodeState) -> _Look:
        known = self._looks.get(state.name) or self._known.get(state.name)
        gpus = None if state.agent is None else state.agent.gpus
        if known is not None and known[0] is state.record and known[1] is gpus:
            return known
        node = _as_new(state)
        return state.record, gpus, None if node is None else _Kind(_key(node), node)


def _joined(before: Mapping[NodeName, _Look], after: Mapping[NodeName, _Look]) -> Iterator[Hashable]:
    """Yield the kinds of which there is a node that was not there, or was of another kind."""
    for name, (*_, kind) in after.items():
        known = before.get(name)
        if kind is not None and (known is None or known[2] is None or known[2].key != kind.key):
            yield kind.key


def wanted_models(request: view.Request) -> set[GPUModel]:
    """Return the models that a pod may use; empty: any."""
    demand = request.demand
    predicted = set() if demand.predicted is None else set(demand.predicted.by_gpu)
    if not demand.gpu_models:
        return predicted
    return set(demand.gpu_models & predicted) if predicted else set(demand.gpu_models)


def _as_new(state: nodes.NodeState) -> view.Node | None:
    """Return a node as another of its kind would be; None where it is not known what it offers."""
    record, agent = state.record, state.agent
    if record is None or agent is None:
        return None
    gpus = tuple(_new_gpu(gpu) for gpu in agent.gpus if gpu.mode in (gpunode.Mode.SHARED, gpunode.Mode.WHOLE))
    return view.Node(
        name=NodeName(""),
        gpus=gpus,
        closed=None,
        host=view.Host(
            free_share=HUNDREDTHS * len(gpus),
            free_cpu_millis=record.cpu_millis,
            free_memory_bytes=record.memory_bytes,
            free_pods=record.pods,
            cpu_millis=record.cpu_millis,
            memory_bytes=record.memory_bytes,
            pods=record.pods,
            schedulable=True,
            labels={key: value for key, value in record.labels.items() if key != _HOST_NAME},
            taints=tuple(taint for taint in record.taints if not str(taint.key).startswith(_PASSING_TAINTS)),
        ),
    )


def _new_gpu(gpu: records.GPU) -> view.GPU:
    return view.GPU(
        uuid=gpu.uuid,
        index=gpu.index,
        model=gpu.model,
        memory_mib=gpu.memory_mib,
        closed=None,
        tenants=(),
        share=0,
        booked_mib=0,
        hold=None,
    )


def _key(node: view.Node) -> object:
    host = node.host
    offered = host.free_share, host.free_cpu_millis, host.free_memory_bytes, host.free_pods
    return _gpus(node.gpus), offered, _items(host.labels), str(host.taints)


def _gpus(gpus: Iterable[view.GPU]) -> tuple[tuple[GPUModel, int], ...]:
    return tuple((gpu.model, gpu.memory_mib) for gpu in gpus)


def _items(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((key, str(value)) for key, value in labels.items())
