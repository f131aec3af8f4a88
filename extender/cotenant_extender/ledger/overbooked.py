"""GPUs that are booked beyond what they have. No rule of packing lets it happen; who finds it tells people. Pure."""

from typing import NamedTuple

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
            excess = state.excess(gpu) or _too_many(source, state, gpu)
            if excess is not None:
                found.append(Overbooked(name, gpu.uuid, excess))
    return found


def _too_many(source: ledger.Ledger, state: nodes.NodeState, gpu: records.GPU) -> str | None:
    """Tell of tenants above the limit of the policy in force, if one of them was placed under that very policy.

    A policy that lowers its limit leaves tenants where they are: that is no fault.
    """
    bound = [uid for uid, claim in state.tenants.get(gpu.uuid, {}).items() if claim.kind is claims.Kind.BOUND]
    policy = source.policy
    if policy is None or len(bound) <= policy.packing(gpu.model).max_tenants_per_gpu:
        return None
    placements = (source.pods[uid].placement for uid in bound if uid in source.pods)
    if not any(placed is not None and placed.policy_generation == policy.generation for placed in placements):
        return None
    return f"{len(bound)} jobs share it, {policy.packing(gpu.model).max_tenants_per_gpu} may"
