"""Nodes as they would be if they were new, and which of them are of one kind. Pure.

A new node has its model's own labels, its taints but those that Kubernetes or Cotenant set while it starts, its GPUs
healthy and empty, and nothing on its host: what daemons take there, the autoscaler knows.

A label that names single nodes (a host name, an instance, GPU Feature Discovery's time stamp) has another value on a
new one. Which labels do is seen from their values: there are many, and few nodes have the same. Nodes that differ in
nothing else are of one kind, though kubelet reports a few MiB of memory more on one than on another.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass

from cotenant_api import gpunode
from cotenant_api.names import HUNDREDTHS, GPUModel, NodeName
from cotenant_extender import records
from cotenant_extender.ledger import nodes
from cotenant_extender.packing import view

FEW_VALUES = 8
"""A label with so many different values may still tell zones, or node groups."""
MEMORY_BITS = 7
"""Sizes of memory that agree in so many leading bits, within 1.6 %, count as equal."""
_HOST_NAME = "kubernetes.io/hostname"
_PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "cotenant.dev/")

Labels = Mapping[str, object]


class Bearers:
    """Which nodes bear which values of labels."""

    def __init__(self) -> None:
        self._seen: dict[NodeName, Labels] = {}
        self._values: dict[str, Counter[object]] = {}
        self._bearers: Counter[str] = Counter()

    def see(self, name: NodeName, labels: Labels) -> None:
        """Take in a node's labels."""
        if self._seen.get(name) is not labels:
            self._leave(name)
            self._seen[name] = labels
            for key, value in labels.items():
                self._values.setdefault(key, Counter())[value] += 1
                self._bearers[key] += 1

    def retain(self, names: Collection[NodeName]) -> None:
        """Forget all other nodes."""
        for name in [name for name in self._seen if name not in names]:
            self._leave(name)

    def naming(self) -> frozenset[str]:
        """Return the labels that name single nodes: more than half as many values as nodes that bear them."""
        found = (
            key
            for key, values in self._values.items()
            if len(values) > FEW_VALUES and 2 * len(values) > self._bearers[key]
        )
        return frozenset((*found, _HOST_NAME))

    def _leave(self, name: NodeName) -> None:
        for key, value in self._seen.pop(name, {}).items():
            values = self._values[key]
            values[value] -= 1
            self._bearers[key] -= 1
            if not values[value]:
                del values[value]
            if not values:
                del self._values[key], self._bearers[key]


@dataclass(frozen=True, slots=True)
class Look:
    """What was made of a node.

    Attributes:
        naming: the labels that were left out.
        node: another of its kind; None: it is not known what it offers.
        key: equal for nodes of one kind.
    """

    record: records.Node | None
    gpus: tuple[records.GPU, ...] | None
    naming: frozenset[str]
    node: view.Node | None
    key: Hashable


def look(state: nodes.NodeState, naming: frozenset[str], known: Look | None) -> Look:
    """Return what is made of a node; `known`: what was made of it before."""
    gpus = None if state.agent is None else state.agent.gpus
    if known is not None and known.record is state.record and known.gpus is gpus and known.naming == naming:
        return known
    node = None if state.record is None or gpus is None else _as_new(state.record, gpus, naming)
    return Look(state.record, gpus, naming, node, None if node is None else _key(node))


def least(one: view.Node, other: view.Node) -> view.Node:
    """Return that of two nodes of one kind which has less memory."""
    return min(one, other, key=lambda node: node.host.memory_bytes)


def _as_new(record: records.Node, gpus: Collection[records.GPU], naming: frozenset[str]) -> view.Node:
    made = tuple(_new_gpu(gpu) for gpu in gpus if gpu.mode in (gpunode.Mode.SHARED, gpunode.Mode.WHOLE))
    return view.Node(
        name=NodeName(""),
        gpus=made,
        closed=None,
        host=view.Host(
            free_share=HUNDREDTHS * len(made),
            free_cpu_millis=record.cpu_millis,
            free_memory_bytes=record.memory_bytes,
            free_pods=record.pods,
            cpu_millis=record.cpu_millis,
            memory_bytes=record.memory_bytes,
            pods=record.pods,
            schedulable=True,
            labels={key: value for key, value in record.labels.items() if key not in naming},
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


def _key(node: view.Node) -> Hashable:
    host = node.host
    offered = host.free_share, host.free_cpu_millis, _rounded(host.free_memory_bytes), host.free_pods
    gpus: tuple[tuple[GPUModel, int], ...] = tuple((gpu.model, gpu.memory_mib) for gpu in node.gpus)
    labels = frozenset((key, str(value)) for key, value in host.labels.items())
    return gpus, offered, labels, str(host.taints)


def _rounded(size: int) -> int:
    """Return a size with its leading bits alone."""
    rest = max(size.bit_length() - MEMORY_BITS, 0)
    return size >> rest << rest
