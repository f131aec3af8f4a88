"""What packing sees of the ledger without a pod's own claim: the whole fleet, or one node."""

import copy
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from cotenant_api.names import GPUUID, GPUModel, NodeName, PodUID
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import fleet, spaces, view


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
    made = fleet.Fleet.of((seen,), policy)
    if own is not None and own.node == name:
        made.admits = frozenset({name})
    if policy.spec.max_gpus_per_namespace is not None and name in source.seen().rows:
        made.cut = _without_these(source, seen, without), np.zeros(0, dtype=np.intp)
    return made


def _without_these(source: ledger.Ledger, shown: view.Node, uid: PodUID | None) -> fleet.Fleet:
    """All nodes, as to what counts for namespaces, without these GPUs of one, and without what a pod claims."""
    made, uuids = copy.copy(source.seen()), {gpu.uuid for gpu in shown.gpus}
    made.space, made.hold = made.space.copy(), made.hold.copy()
    claim = None if uid is None else source.claims.get(uid)
    for name in {shown.name} if claim is None else {shown.name, claim.node}.intersection(made.rows):
        row = made.rows[name]
        for slot, gpu in enumerate(made.nodes[row].gpus):
            if gpu.uuid in uuids:
                made.hold[row, slot] = 0
            for place, tenant in enumerate(gpu.tenants):
                if tenant.uid == uid or gpu.uuid in uuids:
                    spaces.leave(made, (row, slot), place)
    return made


def model(source: ledger.Ledger, name: NodeName, uuid: GPUUID) -> GPUModel | None:
    """Return the model of a GPU, as its agent tells."""
    state = source.nodes.get(name)
    known = () if state is None or state.agent is None else state.agent.gpus
    return next((gpu.model for gpu in known if gpu.uuid == uuid), None)
