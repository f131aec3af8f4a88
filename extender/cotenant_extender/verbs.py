"""What filter and prioritize answer. Pure: no side effects, no API call.

filter leaves no node to a pod that the queue has not earmarked: the order is the queue's, also for a pod that never had
our gate. To others it leaves one node: the one the pod is earmarked for while it is offered and takes the pod, else the
one that the policy's placement chooses among those offered. Or, where kube-scheduler is to choose, every node that
takes the pod; then prioritize tells it what packing would do. GPUs that are earmarked for others count as booked. Every
other node is rejected with its reason.
"""

import enum
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotenant_api.names import NodeName
from cotenant_api.pod import PackedReason
from cotenant_extender import podreports, records
from cotenant_extender.ledger import ledger, views
from cotenant_extender.packing import causes, fleet, placing, registry, rules, view

MAX_SCORE = 10
MAX_OTHERS_SCORE = 5
"""Between packing's choice and all others there is a gap that a weight can make decisive."""


class Leaves(enum.StrEnum):
    """What filter leaves of the nodes that take a pod."""

    ONE = "One"
    ALL = "All"


class Filtered(NamedTuple):
    """The answer of filter.

    Attributes:
        chosen: the nodes that are left; all of them for a pod that is none of ours.
        failed: why each node is rejected, where none is left; where all are asked for that take the pod, the others.
        reason: why all are rejected; None where one was chosen.
    """

    chosen: tuple[NodeName, ...]
    failed: dict[NodeName, str]
    reason: PackedReason | None


def filter_nodes(
    source: ledger.Ledger, asked: records.Pod, names: Sequence[NodeName], *, leaves: Leaves = Leaves.ONE
) -> Filtered:
    """Choose nodes for a pod. A pod that the ledger does not know yet is judged from the request."""
    record = source.pods.get(asked.uid, asked)
    if not record.asks:
        return Filtered(tuple(names), {}, None)
    policy = source.policy
    if policy is None or not policy.places:
        message = "there is no PackingPolicy" if policy is None else policy.standstill
        return _none(names, PackedReason.WAITING_FOR_TURN, message)
    request = source.index.asked(record)
    if request is None:
        return _none(names, PackedReason.INVALID_REQUEST, record.invalid or "")
    if request.demand.gang is not None and record.uid not in source.claims:
        return _none(names, PackedReason.WAITING_FOR_GANG, podreports.GANG_NOT_PROMISED)
    pinned = source.reserved.get(record.uid)
    if pinned is not None:
        # A Binding whose reply was lost may still take effect: no other node until that is known.
        found = pinned.node if pinned.node in names else None
        return _only(found) if found else _none(names, PackedReason.WAITING_FOR_TURN, _PINNED)
    return _choice(source, request, names) if leaves is Leaves.ONE else _all(source, request, names)


NOT_PROMISED = PackedReason.WAITING_FOR_TURN, f"a GPU would take the pod, but {podreports.NOT_PROMISED}"
"""Whoever lifted the pod's gate, it goes in the queue's order; what the queue promises it, wakes kube-scheduler."""
_PINNED = "the reply to a Binding to another node was lost, and what became of it is not known yet"


def prioritize(source: ledger.Ledger, asked: records.Pod, names: Sequence[NodeName]) -> list[tuple[NodeName, int]]:
    """Return a score of each node: 10 for packing's choice, 5 to 1 for others that take the pod, by order.

    0 for the rest.
    """
    record = source.pods.get(asked.uid, asked)
    request = source.index.asked(record)
    if request is None or source.policy is None or not source.policy.places:
        return [(name, 0) for name in names]
    ranked = _ranked(source, request, names)
    scores = {name: MAX_OTHERS_SCORE - place * MAX_OTHERS_SCORE // len(ranked) for place, name in enumerate(ranked)}
    scores.update(dict.fromkeys(filter_nodes(source, asked, names).chosen, MAX_SCORE))
    return [(name, scores.get(name, 0)) for name in names]


def _ranked(source: ledger.Ledger, request: view.Request, names: Sequence[NodeName]) -> list[NodeName]:
    """Return the nodes that take a pod, the one whose best GPU the placement puts highest first."""
    with views.without(source, request.demand.uid) as seen:
        offers = rules.offers(seen.part(names), request, check_host=False)
        if not offers.fits.any():
            return []
        score = registry.PLACEMENTS[seen.policy.spec.placement](offers, source.known)
        best = np.where(offers.fits, score, -np.inf).max(axis=1)
        order = np.argsort(-best, kind="stable")
        return [offers.fleet.nodes[row].name for row in order if best[row] > -np.inf]


def _all(source: ledger.Ledger, request: view.Request, names: Sequence[NodeName]) -> Filtered:
    """Every node that takes the pod; its earmark only keeps room for it."""
    with views.without(source, request.demand.uid) as seen:
        offered = seen.part(names)
        takes = rules.offers(offered, request, check_host=False).fits.any(axis=1)
        refused = _refused(names, offered, rules.refusals(offered, request, check_host=False))
    taking = {offered.nodes[row].name for row in np.flatnonzero(takes)}
    if not taking:
        return refused
    if request.demand.uid not in source.claims:
        return _none(names, *NOT_PROMISED)
    failed = {name: reason for name, reason in refused.failed.items() if name not in taking}
    return Filtered(tuple(name for name in names if name in taking), failed, None)


def _choice(source: ledger.Ledger, request: view.Request, names: Sequence[NodeName]) -> Filtered:
    """Return the node that the pod is promised, else the one that packing chooses, else why there is none."""
    uid = request.demand.uid
    claim = source.claims.get(uid)
    if claim is not None and claim.node in names:
        here = views.node(source, claim.node, without=uid)
        if placing.choose(here, request, source.known, check_host=False) is not None:
            return _only(claim.node)
    with views.without(source, uid) as seen:
        offered = seen.part(names)
        found = placing.choose(offered, request, source.known, check_host=False)
        if found is not None:
            return _none(names, *NOT_PROMISED) if claim is None else _only(found.node.name)
        return _refused(names, offered, rules.refusals(offered, request, check_host=False))


def _only(node: NodeName) -> Filtered:
    """Return the others need no reason: kube-scheduler reads none where a node is left."""
    return Filtered((node,), {}, None)


def _refused(names: Sequence[NodeName], offered: fleet.Fleet, refusals: causes.Refusals) -> Filtered:
    """Every node's tally without amounts, so that kube-scheduler can count nodes that say the same."""
    told = dict(zip(offered.rows, causes.by_node(refusals), strict=True))
    failed = {name: told.get(name, _NO_GPUNODE) for name in names}
    return Filtered((), failed, causes.rejection(refusals).reason)


_NO_GPUNODE = f"{PackedReason.INSUFFICIENT_SHARE}: the node has no GPUNode"


def _none(names: Sequence[NodeName], reason: PackedReason, message: str) -> Filtered:
    return Filtered((), dict.fromkeys(names, f"{reason}: {message}"), reason)
