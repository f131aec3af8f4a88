"""What `GET /explain` says of a pod, in the words of its condition. Pure; values ready for JSON."""

from datetime import UTC, datetime
from typing import Any

from cotenant_api import conditions
from cotenant_api.names import GPUUID, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import booked, records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import policies, view
from cotenant_extender.queue import reporting, telling

Object = dict[str, Any]


def waiting(
    source: ledger.Ledger, policy: policies.InForce, teller: telling.Teller, pod: telling.Waiting, *, now: float
) -> Object:
    """Return a pod that waits."""
    reason, message = teller.explain(source, policy, pod, now=now)
    found = _described(pod.record, state="Waiting", reason=reason, message=message)
    found["position"] = pod.position or None
    if pod.entry is not None:
        victims = teller.queue.preemptions.victims(source, pod.entry.name)
        found["victims"] = [f"{victim.namespace}/{victim.name}" for victim in victims]
    found["heldGPUs"] = _held(source, pod.record.uid)
    start = teller.expected_start(pod.entry)
    found["expectedStart"] = None if start is None else _timestamp(start)
    return found


def placed(source: ledger.Ledger, record: records.Pod) -> Object | None:
    """Return a pod that is bound or promised GPUs; None where it is neither."""
    standing = source.earmarks.get(record.uid)
    where = record.placement or source.reserved.get(record.uid) or (None if standing is None else standing.placed)
    if where is None:
        return None
    bound = record.placement is not None
    message = reporting.where(where) if bound else f"promised, until kube-scheduler binds it, {reporting.where(where)}"
    reason = PackedReason.PLACED if bound else PackedReason.WAITING_FOR_TURN
    found = _described(record, state="Placed" if bound else "Promised", reason=reason, message=message)
    found["heldGPUs"] = _held(source, record.uid)
    found["placement"] = where.to_object()
    found["coTenants"] = _beside(source, record.uid, where)
    return found


def _described(record: records.Pod, *, state: str, reason: PackedReason, message: str) -> Object:
    return {
        "namespace": record.namespace,
        "pod": record.name,
        "state": state,
        "reason": str(reason),
        "message": message,
        "since": _timestamp(record.since),
        "priority": record.priority,
        "gang": None if record.gang is None else record.gang.name,
        "position": None,
        "victims": [],
        "heldGPUs": [],
        "expectedStart": None,
        "placement": None,
        "coTenants": [],
    }


def _timestamp(seconds: float) -> str:
    return conditions.timestamp(datetime.fromtimestamp(seconds, UTC))


def _held(source: ledger.Ledger, uid: PodUID) -> list[GPUUID]:
    """GPUs that are kept for a pod's job."""
    mine: list[view.Hold] = [hold for hold in source.holds if uid in hold.holders]
    return sorted(uuid for hold in mine for uuids in source.holds[hold].values() for uuid in uuids)


def _beside(source: ledger.Ledger, uid: PodUID, where: booked.AnyPlaced) -> list[str]:
    """Who shares its GPUs."""
    state = source.nodes.get(where.node)
    uuids = [gpu.uuid for gpu in where.gpus]
    others = set() if state is None else {other for uuid in uuids for other in state.tenants.get(uuid, {})}
    known = [source.pods[other] for other in others if other != uid and other in source.pods]
    return sorted(f"{record.namespace}/{record.name}" for record in known)
