"""For whom room could be made on one GPU, by trying all of them: the judge of the search for victims.

It asks less than the search gives: only single pods on one GPU, of a node of which kube-scheduler has told. The gangs
of victims are worked out from all pods. For whom victims have just left in vain, nobody has to leave.
"""

from cotenant_extender import records
from cotenant_extender.ledger import claims, ledger
from cotenant_extender.packing import view
from cotenant_extender.queue import obstacles, order, planning, scene


def denied(source: ledger.Ledger, queue: planning.Queue, *, now: float) -> list[str]:
    """Return for whom nobody leaves although it would be enough that pods of lower priority leave one GPU."""
    found: list[str] = []
    for entry in queue.line.entries if source.policy is not None and source.policy.places else ():
        if entry.gang is not None or entry.name in queue.preemptions or not entry.members[0].preempts:
            continue
        spared = queue.preemptions.sparing.until(entry, now=now) is not None
        if obstacles.obstacle(source, entry, now=now) is None and not spared:
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
        if not source.hosts.tries.tells_of(entry.members[0].uid, [node.name]):
            continue
        for slot, gpu in enumerate(node.gpus):
            uids = {tenant.uid for tenant in gpu.tenants if _may_leave(source, queue, tenant, entry, now=now)}
            if uids and play.takes(request, row, (slot,), uids):
                return gpu.uuid
    return ""


def _may_leave(
    source: ledger.Ledger, queue: planning.Queue, tenant: view.Tenant, entry: order.Entry, *, now: float
) -> bool:
    """Whether a tenant may be made to leave for a job, with all of its gang that holds GPUs and does not leave yet."""
    record = source.pods.get(tenant.uid)
    if record is None or record.deleting or record.finished:
        return False
    mates = _mates(source, record)
    least = max(0 if mate.request is None else mate.request.demand.minimum_run_seconds for mate in mates)
    leaving = [mate for mate in mates if mate.uid in source.claims and not (mate.deleting or mate.finished)]
    staying = queue.preemptions.staying(source, now=now)
    return all(
        mate.priority < entry.priority and mate.uid not in staying and _is_ready(source, mate, least, now=now)
        for mate in leaving
    )


def _mates(source: ledger.Ledger, record: records.Pod) -> list[records.Pod]:
    """The pods that say the same of their gang and have the same priority and controller; the pod alone if too many."""
    asked = None if record.request is None else record.request.demand
    if source.policy is None or asked is None or asked.gang is None:
        return [record]
    if asked.gang.size > source.policy.spec.queue.max_gang_size:
        return [record]
    return [
        mate
        for mate in source.pods.values()
        if mate.request is not None
        and mate.request.demand.gang == asked.gang
        and (mate.namespace, mate.priority) == (record.namespace, record.priority)
        and (asked.gang.across_controllers or mate.request.demand.controller == asked.controller)
    ]


def _is_ready(source: ledger.Ledger, record: records.Pod, least: int, *, now: float) -> bool:
    """Whether a pod is only promised its GPUs, or has run for so long, in seconds."""
    kind = source.claims[record.uid].kind
    ran = -1.0 if record.started is None else now - record.started
    return kind is claims.Kind.EARMARK or (kind is claims.Kind.BOUND and (least == 0 or ran >= least))
