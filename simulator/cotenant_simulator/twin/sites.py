"""The nodes and GPUs of a simulated cluster, as the ledger takes them in."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import gpunode, names
from cotenant_api.names import GPUUID, GPUModel, NodeName
from cotenant_extender import records
from cotenant_extender.ledger import ledger

_FOREVER: Final = 1e15
"""Agents of simulated nodes never fall silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GPU:
    """One GPU; memory in MiB."""

    uuid: GPUUID
    model: GPUModel
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node, its GPUs by index, and what it has beside them: millicores, bytes and pods."""

    name: NodeName
    gpus: tuple[GPU, ...]
    cpu_millis: int = 10**9
    memory_bytes: int = 1 << 50
    pods: int = 10**6


def alike(count: int, *, gpus: int, model: GPUModel, memory_mib: int) -> tuple[Node, ...]:
    """So many nodes with so many GPUs of one model each; their names sort by number."""
    width = len(str(max(count - 1, 0)))
    made = []
    for number in range(count):
        name = NodeName(f"node-{number:0{width}}")
        here = tuple(GPU(uuid=GPUUID(f"{name}/{index}"), model=model, memory_mib=memory_mib) for index in range(gpus))
        made.append(Node(name=name, gpus=here))
    return tuple(made)


def enter(known: ledger.Ledger, nodes: Sequence[Node]) -> None:
    """Make these nodes known, healthy and for ever alive."""
    for node in nodes:
        known.node(
            records.Node(
                name=node.name,
                share=len(node.gpus) * names.HUNDREDTHS,
                cpu_millis=node.cpu_millis,
                memory_bytes=node.memory_bytes,
                pods=node.pods,
                schedulable=True,
                labels={},
                taints=(),
            )
        )
        known.gpunode(told(node, 1), now=0.0)
        known.lease(node.name, _FOREVER, now=_FOREVER)


def told(node: Node, version: int, *, ready: bool = True, unhealthy: Collection[GPUUID] = ()) -> records.GPUNode:
    """Return what a node's agent tells."""
    gpus = tuple(_gpu(index, gpu, healthy=gpu.uuid not in unhealthy) for index, gpu in enumerate(node.gpus))
    return records.GPUNode(name=node.name, version=version, ready=ready, excluded=frozenset(), gpus=gpus)


def _gpu(index: int, gpu: GPU, *, healthy: bool) -> records.GPU:
    return records.GPU(
        uuid=gpu.uuid,
        index=index,
        model=gpu.model,
        memory_mib=gpu.memory_mib,
        mode=gpunode.Mode.SHARED,
        health=gpunode.Health.HEALTHY if healthy else gpunode.Health.UNHEALTHY,
        foreign_processes=0,
        tenants=(),
    )
