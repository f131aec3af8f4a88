"""The trace's nodes and pods as packing sees them: one hundredth of a GPU is ten of the trace's thousandths.

The trace says nothing of GPU memory and of who owns a pod: memory is booked by share, and anyone may share. Pure.
"""

import dataclasses
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from cotenant_api import names, packingpolicy, pod
from cotenant_extender.packing import constraints, fleet, placing, policies, view
from cotenant_simulator.openb import trace

GPU_MEMORY_MIB: Final = 100_000
"""A share's memory is a whole number of MiB, so that memory never refuses what share allows."""
BYTES_PER_MIB: Final = 1 << 20
MOST_TENANTS: Final = 16
"""As many as a PackingPolicy can allow."""

_NAMESPACE: Final = names.Namespace("openb")
_ANY_NODE: Final = constraints.Constraints()
_NO_LABELS: Final = MappingProxyType[str, str]({})
_MANY_PODS: Final = 1_000_000


def policy(placement: packingpolicy.Placement, *, max_tenants: int) -> policies.InForce:
    """Return the policy of a replay: nothing but shares, host resources and the number of tenants limits packing."""
    spec = packingpolicy.Spec(
        placement=placement,
        max_tenants_per_gpu=max_tenants,
        memory_headroom_percent=0,
        tenancy=packingpolicy.Tenancy.ANY,
    )
    return policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=spec))


def empty(nodes: Iterable[trace.Node], in_force: policies.InForce) -> fleet.Fleet:
    """All nodes without pods, in the order given."""
    return fleet.Fleet.of([_node(node) for node in nodes], in_force)


def request(asked: trace.Pod, *, arrival: int) -> view.Request:
    """Return an arrival; the same pod may arrive again, as another one."""
    demand = pod.Demand(
        uid=names.PodUID(str(arrival)),
        namespace=_NAMESPACE,
        name=asked.name,
        container="main",
        share=asked.demand_milli // trace.MILLI_PER_HUNDREDTH,
        predicted=None,
        memory_mib=None,
        gpu_models=frozenset(map(names.GPUModel, asked.models)) if asked.gpus else frozenset(),
        workload_type=pod.WorkloadType.TRAINING,
        processes_per_gpu=1,
        gang=None,
        queued_since=None,
        minimum_run_seconds=0,
    )
    host = view.HostNeed(cpu_millis=asked.cpu_millis, memory_bytes=asked.memory_mib * BYTES_PER_MIB)
    key = (demand.share, demand.gpu_models, host)
    return view.Request(
        demand=demand,
        labels=_NO_LABELS,
        priority=0,
        since=0.0,
        host=host,
        constraints=_ANY_NODE,
        fit_key=key,
    )


def with_pod(choice: placing.Choice, asked: view.Request) -> view.Node:
    """Return the chosen node, with the pod on the chosen GPUs."""
    booked = dict(zip((gpu.index for gpu in choice.gpus), choice.needs, strict=True))
    gpus = tuple(
        _joined(gpu, asked.demand, booked[gpu.index].share) if gpu.index in booked else gpu for gpu in choice.node.gpus
    )
    host = choice.node.host
    left = dataclasses.replace(
        host,
        free_share=host.free_share - asked.demand.share,
        free_cpu_millis=host.free_cpu_millis - asked.host.cpu_millis,
        free_memory_bytes=host.free_memory_bytes - asked.host.memory_bytes,
        free_pods=host.free_pods - 1,
    )
    return dataclasses.replace(choice.node, gpus=gpus, host=left)


def _joined(gpu: view.GPU, demand: pod.Demand, share: int) -> view.GPU:
    memory = GPU_MEMORY_MIB * share // names.HUNDREDTHS
    tenant = view.Tenant(
        uid=demand.uid,
        namespace=demand.namespace,
        labels=_NO_LABELS,
        workload_type=demand.workload_type,
        share=share,
        memory_mib=memory,
    )
    tenants = (*gpu.tenants, tenant)
    return dataclasses.replace(gpu, tenants=tenants, share=gpu.share + share, booked_mib=gpu.booked_mib + memory)


def _node(node: trace.Node) -> view.Node:
    gpus = tuple(
        view.GPU(
            uuid=names.GPUUID(f"{node.name}/{index}"),
            index=index,
            model=names.GPUModel(node.model),
            memory_mib=GPU_MEMORY_MIB,
            closed=None,
            tenants=(),
            share=0,
            booked_mib=0,
            hold=None,
        )
        for index in range(node.gpus)
    )
    host = view.Host(
        free_share=node.gpus * names.HUNDREDTHS,
        free_cpu_millis=node.cpu_millis,
        free_memory_bytes=node.memory_mib * BYTES_PER_MIB,
        free_pods=_MANY_PODS,
        cpu_millis=node.cpu_millis,
        memory_bytes=node.memory_mib * BYTES_PER_MIB,
        pods=_MANY_PODS,
        schedulable=True,
        labels=_NO_LABELS,
        taints=(),
    )
    return view.Node(name=names.NodeName(node.name), gpus=gpus, closed=None, host=host)
