"""For whom room could be made on one GPU, by trying all of them: the judge of the search for victims.

It asks less than the search gives: only single pods on one GPU, and only victims of no gang.
"""

from cotenant_extender.ledger import claims, ledger
from cotenant_extender.packing import view
from cotenant_extender.queue import obstacles, order, planning, scene


def denied(source: ledger.Ledger, queue: planning.Queue, *, now: float) -> list[str]:
    """Return for whom nobody leaves although it would be enough that pods of lower priority leave one GPU."""
    found: list[str] = []
    for entry in queue.line.entries if source.policy is not None and source.policy.places else ():
        if entry.gang is not None or entry.name in queue.preemptions or not entry.members[0].preempts:
            continue
        if obstacles.obstacle(source, entry, now=now) is None:
            where = _room(source, queue, entry, now=now)
            found += [f"nobody leaves {where} for {entry.members[0].name}, which then would fit"] if where else []
    return found


def _room(source: ledger.Ledger, queue: planning.Queue, entry: order.Entry, *, now: float) -> str:
    """The first GPU that takes a pod when those have left it who may be asked to; empty: there is none."""
    (request,), play = entry.requests, scene.Scene(source, source.seen())
    setback = source.earmarks.setback(entry.members[0].uid)
    for row, node in enumerate(source.seen().nodes if request.demand.gpus == 1 else ()):
        if setback is not None and setback.node == node.name:
            continue
        for slot, gpu in enumerate(node.gpus):
            uids = {tenant.uid for tenant in gpu.tenants if _may_leave(source, queue, tenant, entry, now=now)}
            if uids and play.takes(request, row, (slot,), uids):
                return gpu.uuid
    return ""


def _may_leave(
    source: ledger.Ledger, queue: planning.Queue, tenant: view.Tenant, entry: order.Entry, *, now: float
) -> bool:
    """Whether a tenant, alone, may be made to leave for a job."""
    record, kind = source.pods.get(tenant.uid), source.claims[tenant.uid].kind
    if (
        record is None
        or record.deleting
        or record.finished
        or record.gang
        or record.priority >= entry.members[0].priority
    ):
        return False
    if tenant.uid in queue.preemptions.staying(source, now=now):
        return False
    if kind is claims.Kind.EARMARK:
        return True
    least = 0 if record.request is None else record.request.demand.minimum_run_seconds
    ran = -1.0 if record.started is None else now - record.started
    return kind is claims.Kind.BOUND and (least == 0 or ran >= least)
