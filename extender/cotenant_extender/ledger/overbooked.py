"""GPUs that are booked beyond what they have. No rule of packing lets it happen; who finds it tells people. Pure."""

from typing import NamedTuple

from cotenant_api import booking
from cotenant_api.names import GPUUID, NodeName
from cotenant_extender import records, steps
from cotenant_extender.ledger import claims, ledger, nodes

NODES_PER_STEP = 200


class Overbooked(NamedTuple):
    """One GPU, and what is booked on it beyond what it has, in words."""

    node: NodeName
    uuid: GPUUID
    excess: str


def overbooked(source: ledger.Ledger) -> steps.Steps[list[Overbooked]]:
    """Return, in steps, every GPU whose bound pods book more than it has, or are more than the policy in force lets.

    A GPU on which it is doubtful whether a pod that is gone still runs is not judged before its GPUNode has been read.
    """
    found: list[Overbooked] = []
    for count, name in enumerate(list(source.order), start=1):
        if count % NODES_PER_STEP == 0:
            yield
        state = source.nodes.get(name)
        if state is None or state.agent is None:
            continue
        for gpu in state.agent.gpus:
            if not source.graves.doubtful.keys().isdisjoint(state.tenants.get(gpu.uuid, {})):
                continue
            excess = state.excess(gpu) or _beyond_policy(source, state, gpu)
            if excess is not None:
                found.append(Overbooked(name, gpu.uuid, excess))
    return found


def _beyond_policy(source: ledger.Ledger, state: nodes.NodeState, gpu: records.GPU) -> str | None:
    """Tell of more tenants or memory than the policy in force lets, if a tenant was placed under that very policy.

    A policy that lowers its limits leaves tenants where they are: that is no fault. Earlier policies are not stored, so
    what was a fault under one of them is not told of any more.
    """
    here, policy = state.tenants.get(gpu.uuid, {}), source.policy
    bound = {uid: claim for uid, claim in here.items() if claim.kind is claims.Kind.BOUND}
    if policy is None or len(bound) < 2:
        return None
    packing = policy.packing(gpu.model)
    memory = sum(entry.memory_mib for claim in bound.values() for entry in claim.bookings if entry.uuid == gpu.uuid)
    bookable = booking.bookable_mib(gpu.memory_mib, packing)
    if len(bound) <= packing.max_tenants_per_gpu and memory <= bookable:
        return None
    placements = (source.pods[uid].placement for uid in bound if uid in source.pods)
    if not any(placed is not None and placed.policy_generation == policy.generation for placed in placements):
        return None
    if memory > bookable:
        return f"{memory} MiB are booked, {bookable} may be"
    return f"{len(bound)} jobs share it, {packing.max_tenants_per_gpu} may"
