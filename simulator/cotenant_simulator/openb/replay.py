"""One run of the experiment: pods arrive one by one, are placed by the packing functions of filter, and never leave.

A pod that fits nowhere is dropped. Every placement and every refusal is judged by `ledger`, which packing does not
know. Pure: the same order gives the same outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cotenant_api import packingpolicy
from cotenant_extender.packing import fleet, knowledge, mix, placing, policies, view
from cotenant_simulator.openb import accounts, arrivals, cluster, fragmentation, ledger, trace

Choose = Callable[[fleet.Fleet, view.Request, knowledge.Knowledge], placing.Choice | None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run came to.

    Attributes:
        allocated_percent: of the cluster's GPUs, by arrived demand.
        fragmented_percent: of the cluster's GPUs, idle and of no use to typical pods; in the columns `accounts.SHOWN`.
        refused_though_fitting: pods that were dropped although a node could take them.
        violations: placements that took what was not there, or not allowed.
    """

    allocated_percent: accounts.Curve
    fragmented_percent: accounts.Curve
    refused_though_fitting: int
    violations: int


def run(read: trace.Trace, order: arrivals.Order, in_force: policies.InForce, choose: Choose) -> Outcome:
    """Let all pods arrive.

    Args:
        read: the trace, whose pods say what is typical.
        order: of arrivals and of nodes.
        in_force: the policy.
        choose: which GPUs a pod goes to.
    """
    packed = cluster.empty(order.nodes, in_force)
    alone = in_force.spec.placement is packingpolicy.Placement.EXCLUSIVE
    counts = ledger.Ledger(order.nodes, max_tenants=1 if alone else in_force.spec.max_tenants_per_gpu)
    meter = fragmentation.Meter(read, order.nodes)
    known = knowledge.Knowledge()
    allocated, fragmented = (accounts.Account(capacity_milli=read.capacity_milli) for _ in range(2))
    arrived = violations = refused = 0
    for arrival, pod in enumerate(order.pods):
        request = cluster.request(pod, arrival=arrival)
        known.mix.add(mix.demand_of(request))
        choice = choose(packed, request, known)
        if choice is None:
            refused += bool(counts.takers(pod).any())
        else:
            violations += not counts.place(pod, choice.node.name, [gpu.index for gpu in choice.gpus])
            packed.put(cluster.with_pod(choice, request))
            meter.note(counts.row(choice.node.name))
        arrived += pod.demand_milli
        column = accounts.column(arrived, read.capacity_milli)
        allocated.add(column, counts.allocated_milli)
        if column in accounts.SHOWN:
            fragmented.add(column, meter.milli(counts))
    return Outcome(
        allocated_percent=allocated.curve(),
        fragmented_percent=fragmented.curve(),
        refused_though_fitting=refused,
        violations=violations,
    )
