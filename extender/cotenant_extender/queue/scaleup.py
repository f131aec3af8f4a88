"""Which jobs are shown to the autoscaler: those that fit nowhere now, but would fit another node of a kind there is.

A kind is a node as it would be if it were new: its own labels but the host name, its taints but those that Kubernetes
or Cotenant set while it starts, its GPUs healthy and empty, and nothing on its host: what daemons take there, the
autoscaler knows. A job whose
GPU models no node has is shown, too, where the cluster has none of that model now: a node group may be scaled to zero.
It is not where it names models alone that neither a GPUNode nor the PackingPolicy has ever named: that is no kind of
node that anybody knows, and its reason says so.

Pure; node groups and the autoscaler are not known here. An autoscaler knows node totals only.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from cotenant_api import gpunode
from cotenant_api.names import HUNDREDTHS, GPUModel, NodeName
from cotenant_extender import records
from cotenant_extender.ledger import ledger, nodes
from cotenant_extender.packing import fleet, policies, rules, view
from cotenant_extender.queue import order
from cotenant_extender.steps import Steps

LIMIT = 256
"""Pods that are shown at a time: kube-scheduler tries each again whenever something changes."""
REFRESH_SECONDS = 10.0
NODES_PER_STEP = 50
"""A step takes about two milliseconds: filter waits for it."""
_HOST_NAME = "kubernetes.io/hostname"
_PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "cotenant.dev/")


class _Kind(NamedTuple):
    """A node as it would be if it were new, and what all of its kind have in common."""

    key: Hashable
    node: view.Node


class Growth:
    """The kinds of nodes that there are, and what would fit them."""

    def __init__(self) -> None:
        self._kinds: fleet.Fleet | None = None
        self._refreshed = -REFRESH_SECONDS
        self._as_of = 0
        self._models: set[GPUModel] = set()
        self._fits: dict[object, bool] = {}
        self._helped: dict[order.Name, tuple[order.Entry, bool]] = {}
        self._known: dict[NodeName, tuple[object, object, _Kind | None]] = {}

    def prepare(self, source: ledger.Ledger, policy: policies.InForce, *, now: float) -> Steps[None]:
        """Refresh in steps."""
        if not self._is_due(policy, now=now):
            return
        for count, name in enumerate(list(source.order), start=1):
            state = source.nodes.get(name)
            if state is not None:
                self._known[name] = self._looked_at(state)
            if count % NODES_PER_STEP == 0:
                yield
        self.refresh(source, policy, now=now)
        yield

    def refresh(self, source: ledger.Ledger, policy: policies.InForce, *, now: float) -> None:
        """Look at the nodes again, once in a while."""
        standing = self._kinds
        if not self._is_due(policy, now=now):
            return
        self._refreshed = now
        self._fits.clear()
        self._helped.clear()
        if standing is not None and standing.policy is policy and source.equipment == self._as_of:
            return
        self._as_of = source.equipment
        self._known = {name: self._looked_at(source.nodes[name]) for name in source.order}
        found = {kind.key: kind.node for *_, kind in reversed(self._known.values()) if kind is not None}
        self._models.update(gpu.model for node in found.values() for gpu in node.gpus)
        self._models.update(model for override in policy.spec.overrides for model in override.gpu_models)
        self._kinds = fleet.Fleet.of(list(found.values()), policy)

    def _is_due(self, policy: policies.InForce, *, now: float) -> bool:
        standing = self._kinds
        return standing is None or standing.policy is not policy or now - self._refreshed >= REFRESH_SECONDS

    def helps(self, entry: order.Entry) -> bool:
        """Whether new nodes of known kinds would take all pods of a job."""
        found = self._helped.get(entry.name)
        if found is None or found[0] is not entry:
            found = self._helped[entry.name] = entry, all(self._would_fit(request) for request in entry.requests)
        return found[1]

    def _would_fit(self, request: view.Request) -> bool:
        found = self._fits.get(request.fit_key)
        if found is None:
            found = self._fits[request.fit_key] = self._asked(request)
        return found

    def _asked(self, request: view.Request) -> bool:
        kinds = self._kinds
        if kinds is None:
            return False
        if rules.offers(kinds, request, check_host=True).fits.any():
            return True
        wanted = wanted_models(request)
        if any(not wanted or model in wanted for model in kinds.models):
            return False
        return not wanted or not self._models or bool(wanted & self._models)

    def _looked_at(self, state: nodes.NodeState) -> "tuple[object, object, _Kind | None]":
        known = self._known.get(state.name)
        gpus = None if state.agent is None else state.agent.gpus
        if known is not None and known[0] is state.record and known[1] is gpus:
            return known
        node = _as_new(state)
        return state.record, gpus, None if node is None else _Kind(_key(node), node)


def wanted_models(request: view.Request) -> set[GPUModel]:
    """The models that a pod may use; empty: any."""
    demand = request.demand
    predicted = set() if demand.predicted is None else set(demand.predicted.by_gpu)
    if not demand.gpu_models:
        return predicted
    return set(demand.gpu_models & predicted) if predicted else set(demand.gpu_models)


def _as_new(state: nodes.NodeState) -> view.Node | None:
    """A node as another of its kind would be; None where it is not known what it offers."""
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
