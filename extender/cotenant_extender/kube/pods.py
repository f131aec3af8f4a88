"""Requests about pods: what the extender writes. Paths and bodies are pure; it may change nothing else of a pod."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from cotenant_api import conditions, names, packingpolicy, placement
from cotenant_api.names import Namespace
from cotenant_api.pod import PackedReason
from cotenant_extender import podreports, records
from cotenant_extender.ledger import earmarks
from cotenant_extender.queue import reporting

Object = dict[str, Any]

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
GPUNODES = f"/apis/{names.API_VERSION}/gpunodes"
POLICIES = f"/apis/{names.API_VERSION}/packingpolicies"
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
POLICY_STATUS = f"{POLICIES}/{packingpolicy.NAME}/status"
COMPONENT = "cotenant-extender"


def leases_path(namespace: str) -> str:
    """Return the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"


def pod_path(namespace: Namespace, name: str, subresource: str = "") -> str:
    """Return a pod, or a subresource of it. Names come from requests too, so they are quoted."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def budget_path(namespace: Namespace, name: str) -> str:
    """Return the path of a PodDisruptionBudget."""
    return f"{_budgets_path(namespace)}/{quote(name, safe='')}"


def budgets_path(namespace: Namespace, *, limit: int) -> str:
    """Return the path of the first PodDisruptionBudgets of a namespace."""
    return f"{_budgets_path(namespace)}?limit={limit}"


def _budgets_path(namespace: Namespace) -> str:
    return f"/apis/policy/v1/namespaces/{quote(namespace, safe='')}/poddisruptionbudgets"


def events_path(namespace: Namespace) -> str:
    """Return the events of a namespace."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/events"


def lift(record: records.Pod, earmark: earmarks.Earmark | None) -> Object:
    """Strategic merge patch of exactly this state of a pod: the earmark, if any, and, where ours is alone, no gate.

    The API server applies a merge patch to the pod as JSON text; this one to the pod itself, for less.
    """
    change: Object = {"metadata": _preconditions(record)}
    if earmark is not None:
        change["metadata"]["annotations"] = {names.EARMARK: earmark.note().to_json()}
    if record.gates:
        change["spec"] = {"schedulingGates": None}
    return change


def fence(record: records.Pod, note: earmarks.Note) -> Object:
    """Return a strategic merge patch that writes the earmark annotation of exactly this state of this pod."""
    return {"metadata": {**_preconditions(record), "annotations": {names.EARMARK: note.to_json()}}}


def condition(report: reporting.Report, *, now: str) -> Object:
    """Strategic merge patch of the status: the one condition.

    Its transition time is that of its status: since when the pod counts as waiting, where it waits.
    """
    record = report.record
    stood = record.packed is not None and (record.packed[0] == "Placed") is report.placed
    value = {
        "type": names.PACKED,
        "status": conditions.Status.TRUE if report.placed else conditions.Status.FALSE,
        "reason": report.reason,
        "message": report.message[: conditions.MAX_MESSAGE],
    }
    if not report.placed:
        value["lastTransitionTime"] = conditions.timestamp(datetime.fromtimestamp(record.since, UTC))
    elif not stood:
        value["lastTransitionTime"] = now
    return {"metadata": {"uid": record.uid}, "status": {"conditions": [value]}}


def report_taken_back(record: records.Pod) -> Object:
    """Strategic merge patch of the status of exactly this state of a pod: kube-scheduler's report tells nothing."""
    value = {
        "type": "PodScheduled",
        "status": conditions.Status.FALSE,
        "reason": podreports.UNSCHEDULABLE,
        "message": podreports.TAKEN_BACK,
    }
    return {"metadata": _preconditions(record), "status": {"conditions": [value]}}


def binding(record: records.Pod, placed: placement.Placement) -> Object:
    """Return a Binding of exactly this state of this pod; the placement is merged into the pod's annotations."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": record.name,
            "namespace": record.namespace,
            **_preconditions(record),
            "annotations": {names.PLACEMENT: placed.to_json()},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": placed.node},
    }


def eviction(record: records.Pod, *, dry_run: bool = False) -> Object:
    """Return an Eviction of exactly this state of this pod: one that has finished since would be deleted at once.

    In a dry run the API server judges it, by PodDisruptionBudgets too, and changes nothing.
    """
    options = {"preconditions": _preconditions(record)}
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": record.name, "namespace": record.namespace},
        "deleteOptions": {**options, "dryRun": ["All"]} if dry_run else options,
    }


def evicted(raw: Mapping[str, Any]) -> bool:
    """Return whether a pod, as the API server has it, is leaving because of an Eviction."""
    found = ((item.get("type"), item.get("reason")) for item in (raw.get("status") or {}).get("conditions") or ())
    return "deletionTimestamp" in raw["metadata"] and ("DisruptionTarget", "EvictionByEvictionAPI") in found


def deletion(record: records.Pod) -> Object:
    """DeleteOptions for exactly this state of this pod."""
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": _preconditions(record)}


def _preconditions(record: records.Pod) -> Object:
    # A pod whose version cannot be read has "0", which no pod has: such a write is refused.
    return {"uid": record.uid, "resourceVersion": str(record.version)}


def waiting_event(report: reporting.Report, *, now: str) -> Object:
    """Why a pod waits: one event of a pod and a reason, which is told again with its latest message."""
    record = report.record
    found = event(record, reason=report.reason, message=report.message, now=now)
    found["metadata"]["name"] = _event_name(record, report.reason)
    if report.reason is not PackedReason.INVALID_REQUEST:
        found["type"] = "Normal"
    return found | {"count": report.times}


def told_again(event: Object) -> Object:
    """Merge patch of an event that is there already."""
    return {key: event[key] for key in ("message", "lastTimestamp", "count")}


def _event_name(record: records.Pod, *told: str) -> str:
    digest = hashlib.sha256("/".join((record.uid, *told)).encode()).hexdigest()[:16]
    return f"{record.name[:200]}.{digest}"


def event(record: records.Pod, *, reason: str, message: str, now: str) -> Object:
    """Return a warning event about a pod, which is there already when it is created again after a lost reply."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _event_name(record, reason, message, now), "namespace": record.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": record.name,
            "namespace": record.namespace,
            "uid": record.uid,
        },
        "reason": reason,
        "message": message[:1024],
        "type": "Warning",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
