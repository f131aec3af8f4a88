"""Which GPUs are held for the oldest job that does not fit.

Those that would take it if they were empty, and that have the least booked now: they are likely to be free soonest.
Run times are not known, so a hold may be wrong about which; it stays where it is until its job is placed or its GPUs
close, so that they do empty.
"""

from dataclasses import replace

from cotenant_api.names import GPUUID, NodeName
from cotenant_extender.ledger import ledger, views
from cotenant_extender.packing import policies, rules, view


def keep(source: ledger.Ledger, request: view.Request, policy: policies.InForce) -> None:
    """Hold GPUs for a job, the same as before where these can still serve it."""
    hold = view.Hold(uid=request.demand.uid, priority=request.priority, since=request.since)
    held = source.held_gpus()
    if source.hold == hold and held is not None and _can_serve(source, held, request, policy):
        return
    found = _best(source, request, policy)
    if found is None:
        source.set_hold(None)
    else:
        source.set_hold(hold, *found)


def _can_serve(
    source: ledger.Ledger,
    held: tuple[NodeName, frozenset[GPUUID]],
    request: view.Request,
    policy: policies.InForce,
) -> bool:
    node, gpus = held
    suited = [gpu for seen in views.View(source, among=(node,), gpus=gpus) for gpu in _suited(seen, request, policy)]
    return len(suited) >= request.demand.gpus


def _best(
    source: ledger.Ledger, request: view.Request, policy: policies.InForce
) -> tuple[NodeName, frozenset[GPUUID]] | None:
    count = request.demand.gpus
    best: tuple[int, NodeName, frozenset[GPUUID]] | None = None
    for node in views.View(source):
        suited = sorted(_suited(node, request, policy), key=lambda gpu: (gpu.share, gpu.index))[:count]
        booked = sum(gpu.share for gpu in suited)
        if len(suited) == count and (best is None or booked < best[0]):
            best = booked, node.name, frozenset(gpu.uuid for gpu in suited)
    return None if best is None else best[1:]


def _suited(node: view.Node, request: view.Request, policy: policies.InForce) -> list[view.GPU]:
    """The GPUs of a node that would take the job if they were empty."""
    host = node.host
    if node.closed is not None or not host.schedulable:
        return []
    if not request.constraints.allow(node.name, host.labels, host.taints):
        return []
    empty = (replace(gpu, tenants=(), share=0, booked_mib=0, hold=None) for gpu in node.gpus)
    fit = {gpu.uuid for gpu in empty if rules.refused_by_gpu(gpu, request, policy) is None}
    return [gpu for gpu in node.gpus if gpu.uuid in fit]
