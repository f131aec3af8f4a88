"""What packing sees of the ledger without a pod's own claim: the whole fleet, or one node."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from cotenant_api.names import GPUUID, GPUModel, NodeName, PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import fleet


@contextmanager
def without(source: ledger.Ledger, uid: PodUID) -> Iterator[fleet.Fleet]:
    """All nodes, without what this pod claims; the ledger may not change meanwhile."""
    seen, claim = source.seen(), source.claims.get(uid)
    if claim is None or claim.node not in seen.rows:
        yield seen
        return
    state = source.nodes[claim.node]
    with seen.replacing(state.seen(seen.policy, source.finished, without=claim)) as fleet_without:
        yield fleet_without


def node(
    source: ledger.Ledger, name: NodeName, *, without: PodUID | None = None, gpus: Collection[GPUUID] | None = None
) -> fleet.Fleet:
    """One node, without what a pod claims, and only these GPUs of it; empty where it has no GPUNode.

    Raises:
        ValueError: there is no policy.
    """
    policy = source.policy
    if policy is None:
        raise ValueError("without a PackingPolicy there is nothing to be seen")
    state = source.nodes.get(name)
    if state is None or state.agent is None:
        return fleet.Fleet.of((), policy)
    own = None if without is None else source.claims.get(without)
    seen = state.seen(policy, source.finished, without=own if own is not None and own.node == name else None)
    if gpus is not None:
        seen = replace(seen, gpus=tuple(gpu for gpu in seen.gpus if gpu.uuid in gpus))
    return fleet.Fleet.of((seen,), policy)


def model(source: ledger.Ledger, name: NodeName, uuid: GPUUID) -> GPUModel | None:
    """Return the model of a GPU, as its agent tells."""
    state = source.nodes.get(name)
    known = () if state is None or state.agent is None else state.agent.gpus
    return next((gpu.model for gpu in known if gpu.uuid == uuid), None)
