"""Reads what is kept of the objects that the API server sends. Pure.

The API server has checked its own kinds; what others wrote into ours may be anything, and is refused by name.
"""

import json
import re
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Final

from cotenant_api import (
    conditions,
    dljob,
    documents,
    errors,
    gpunode,
    names,
    packingpolicy,
    placement,
    success,
)
from cotenant_api import pod as pods
from cotenant_api.names import GraphDigest, NodeName
from cotenant_operator import labels
from cotenant_operator.state import (
    carried,
    demand,
    drift,
    endings,
    grants,
    origins,
    setbacks,
    shortages,
    specs,
    starts,
    suspicions,
    texts,
    views,
)

_MAX_UID: Final = 64
_BOOLEANS: Final = {"true": True, "false": False}
_DIGEST: Final = re.compile(r"[0-9A-Za-z:._-]{1,128}")


def meta(value: views.Object, *, copied: Collection[str] = ()) -> views.Meta:
    """Return the metadata that is kept.

    Args:
        value: the object.
        copied: the keys of further labels that are kept.
    """
    metadata: views.Object = value["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return views.Meta(
        key=views.Key(metadata.get("namespace", ""), metadata["name"]),
        uid=metadata["uid"],
        version=version(value),
        generation=metadata.get("generation", 0),
        created=datetime.fromisoformat(metadata["creationTimestamp"]),
        deleting="deletionTimestamp" in metadata,
        owner_uid=next((owner["uid"] for owner in owners if owner.get("controller")), None),
        labels={
            key: text
            for key, text in (metadata.get("labels") or {}).items()
            if labels.is_kept(key) or labels.is_copied(key, copied)
        },
    )


def version(value: views.Object) -> int:
    """`resourceVersion` as a number."""
    return int(value["metadata"].get("resourceVersion", 0))


def dl_job(value: views.Object, *, copied: Collection[str] = ()) -> views.DLJob:
    """Return a DLJob; what cannot be read of it is named in `problem`.

    Args:
        value: the object.
        copied: the keys of its labels that its pods get, too.
    """
    written: views.Object = value.get("status") or {}
    raw_spec: views.Object = value.get("spec") or {}
    status, status_problem = specs.read(dljob.Status, written, source="status")
    text, problem, ended = None, None, None if status is None else views.finished(status)
    if status is None:
        written = {}
    if ended is None:
        text, problem = specs.text(raw_spec)
    else:
        # Nothing is derived from it any more.
        written = {"conditions": [ended.to_object()]}
    return views.DLJob(
        meta=meta(value, copied=copied),
        text=text,
        problem=problem,
        status_text=json.dumps(written, separators=(",", ":")).encode(),
        status_problem=status_problem,
        ttl_seconds=raw_spec.get("ttlSecondsAfterFinished"),
        is_sweep=raw_spec.get("completions") is not None,
        stalled=status is not None and conditions.is_true(status.conditions, dljob.STALLED),
        suspended=raw_spec.get("suspend") is True,
        finished=ended,
        phase=None if status is None else status.phase,
        observed_generation=None if status is None else status.observed_generation,
        ready=status is not None and conditions.is_true(status.conditions, dljob.READY),
        suspend_written=_BOOLEANS.get(_annotation(value, labels.SUSPEND) or ""),
        sweep_digest=None if ended else _sweep_digest(value),
        started=status is not None and status.start_time is not None,
        outdated=status is not None and conditions.is_false(status.conditions, dljob.CURRENT),
    )


def job(value: views.Object) -> views.Job:
    """Return a batch/v1 Job that we made."""
    spec, status = value["spec"], value.get("status") or {}
    ends = {item["type"]: item for item in status.get("conditions") or () if item["status"] == "True"}
    complete, failed = condition(ends.get("Complete")), condition(ends.get("Failed"))
    attempt = texts.number(value["metadata"]["name"].rpartition("-")[2])
    taken_over, ended, problem = _memory(value, attempt=attempt)
    size, over = spec.get("completions") or 1, complete is not None or failed is not None
    disrupted = _annotation(value, labels.DISRUPTED)
    suspended, written = bool(spec.get("suspend")), _BOOLEANS.get(_annotation(value, labels.SUSPEND) or "")
    done = complete is not None and disrupted is None and not suspended
    policy = _success_policy(spec)
    parallelism = spec.get("parallelism")
    fewer = None if parallelism is None or parallelism >= size else parallelism
    return views.Job(
        meta=meta(value),
        attempt=attempt,
        suspended=suspended,
        deadline_seconds=spec.get("activeDeadlineSeconds"),
        terminating=status.get("terminating") or 0,
        start_time=_time(status.get("startTime")),
        complete=complete,
        failed=failed,
        ending="FailureTarget" in ends or "SuccessCriteriaMet" in ends or "activeDeadlineSeconds" in spec,
        origin=_origin(value),
        grant=None if done else grants.read(spec["template"]),
        external=label(value, labels.KUEUE_QUEUE) != "" or (suspended and written is False),
        backoff_limit=spec.get("backoffLimit"),
        failures=status.get("failed") or 0,
        graph=_graph(value),
        carried=taken_over,
        ended=ended,
        problem=problem,
        size=size,
        demand=None if size == 1 or over else demand.read(spec["template"], pods=size),
        setback=setbacks.setback(_annotation(value, labels.QUOTA_SETBACK)),
        disrupted=disrupted[:_MAX_UID] if disrupted else None,
        queued_since=_queued_since(spec["template"]),
        settled="Suspended" in ends and not status.get("active"),
        suspend_written=written,
        suspended_at=_time((ends.get("Suspended") or {}).get("lastTransitionTime")) if suspended else None,
        succeeded=status.get("succeeded") or 0,
        active=status.get("active") or 0,
        ready=status.get("ready") or 0,
        remote=spec.get("managedBy") == dljob.ManagedBy.MULTIKUEUE,
        success_policy=policy,
        completed=success.indexes(status.get("completedIndexes") or ""),
        criteria_met=policy is not None and "SuccessCriteriaMet" in ends,
        met_first=policy is not None and _is_before(ends.get("SuccessCriteriaMet"), ends.get("Suspended")),
        parallelism=fewer,
        parallelism_by=None if fewer is None else drift.last_writer(value, drift.PARALLELISM),
    )


def deployment(value: views.Object) -> views.Deployment:
    """Return a Deployment that we made."""
    spec, status = value["spec"], value.get("status") or {}
    replicas = spec.get("replicas", 1)
    caught_up = status.get("observedGeneration", 0) >= value["metadata"].get("generation", 0)
    updated = status.get("updatedReplicas") or 0
    strategy, paused = spec.get("strategy") or {}, bool(spec.get("paused"))
    owners = (owner for owner in value["metadata"].get("ownerReferences") or () if owner.get("controller"))
    surge = 0 if strategy.get("type") == "Recreate" else (strategy.get("rollingUpdate") or {}).get("maxSurge", 1)
    return views.Deployment(
        meta=meta(value),
        replicas=replicas,
        available=status.get("availableReplicas") or 0,
        rolled_out=caught_up and updated >= replicas and (status.get("replicas") or 0) <= updated,
        origin=_origin(value),
        grant=_of_graph(grants.read(spec["template"]), _graph(value)),
        owner=next((owner.get("name") for owner in owners if owner.get("kind") == "DLJob"), None),
        replicas_written=_replicas_written(value),
        refused=caught_up and setbacks.refusal(value) is not None,
        revision=revision(spec["template"]),
        shortage=shortages.read(_annotation(value, labels.SHORTAGE)),
        suspicion=suspicions.read(_annotation(value, labels.SUSPICION)),
        surges=surge not in (0, "0", "0%"),
        changed_by=drift.writer(value),
        paused=paused,
        paused_by=drift.last_writer(value, drift.PAUSED) if paused else None,
    )


def _sweep_digest(value: views.Object) -> str | None:
    """Return the digest; None where there is none, or somebody spoilt it."""
    found = _annotation(value, labels.SWEEP_DIGEST)
    return None if found is None or not _DIGEST.fullmatch(found) else found


def _replicas_written(value: views.Object) -> int | None:
    text = _annotation(value, labels.REPLICAS)
    return None if text is None else texts.number(text)


def pod(value: views.Object, *, before: views.Pod | None = None) -> views.Pod:
    """Return a pod that was made from one of our templates.

    Args:
        value: the object.
        before: the same pod as it was seen last; None: it was not.
    """
    spec, status = value["spec"], value.get("status") or {}
    found = {item["type"]: item for item in status.get("conditions") or ()}
    scheduled, packed = found.get("PodScheduled") or {}, found.get(names.PACKED)
    bound = scheduled.get("status") == "True"
    refused = scheduled.get("status") == "False" and scheduled.get("reason") != "SchedulingGated"
    placed = _placement(value)
    index = _annotation(value, labels.COMPLETION_INDEX)
    return views.Pod(
        meta=meta(value),
        dljob_uid=label(value, names.DLJOB_UID_LABEL),
        attempt=texts.number(label(value, names.ATTEMPT_LABEL)),
        index=None if index is None else texts.number(index),
        node=spec.get("nodeName") or None,
        placement=placed,
        phase=status.get("phase", "Pending"),
        ready=(found.get("Ready") or {}).get("status") == "True",
        packed=None if packed is None else (packed.get("reason", ""), packed.get("message", "")),
        unschedulable=scheduled.get("message") if refused else _held(value),
        scheduled_at=_time(scheduled.get("lastTransitionTime")) if bound else None,
        why=endings.why(status),
        end=endings.of_pod(status, before=before),
        revision=revision(value),
        ran_out=endings.ran_out(status),
        hindrance=starts.hindrance(status),
        silent=starts.is_silent(spec, found),
        gone_by=_time(value["metadata"].get("deletionTimestamp")),
        ended_at=endings.ended_at(status),
        told_to_end=endings.was_told_to_end(value["metadata"], status, before=before),
        idle=starts.idle(spec, status, container=None if placed is None else placed.container) if bound else None,
    )


def _held(value: views.Object) -> str | None:
    """Why nobody looks at a pod: a gate that is not ours."""
    others = [gate for gate in pods.gates(value) if gate != names.PACKING_GATE]
    return f"scheduling gate {', '.join(others)}: whoever set it takes it away" if others else None


def gpu_node(value: views.Object) -> views.GPUNode:
    """Return a GPUNode.

    Raises:
        InvalidInputError: its status cannot be read.
    """
    status = documents.validated(gpunode.Status, value.get("status") or {}, source="status")
    metadata = value["metadata"]
    return views.GPUNode(
        name=NodeName(metadata["name"]),
        uid=metadata["uid"],
        version=version(value),
        gpus={gpu.uuid: gpu for gpu in status.gpus},
        refused={refused.pod_uid: refused.reason for refused in status.refused},
        simulated=status.simulated,
        driver=status.driver_version,
        cuda=status.cuda_version,
    )


def policy(value: views.Object) -> views.Policy:
    """Return the PackingPolicy.

    Raises:
        InvalidInputError: a field is wrong; nothing of it may be applied.
    """
    spec = packingpolicy.PackingPolicy.from_object(dict(value)).spec
    return views.Policy(uid=value["metadata"]["uid"], version=version(value), spec=spec)


def _success_policy(spec: views.Object) -> success.SuccessPolicy | None:
    """Return when a Job's gang has succeeded; None where all of its members must."""
    if "successPolicy" not in spec:
        return None
    return specs.read(success.SuccessPolicy, spec["successPolicy"], source="spec.successPolicy")[0]


def label(value: views.Object, name: str) -> str:
    """Return a label; empty where it is not there."""
    return str((value["metadata"].get("labels") or {}).get(name, ""))


def _annotation(value: views.Object, name: str) -> str | None:
    found: str | None = (value["metadata"].get("annotations") or {}).get(name)
    return found


def _origin(value: views.Object) -> origins.Origin:
    return origins.read(
        spec=_annotation(value, labels.SPEC_DIGEST),
        model=_annotation(value, labels.MODEL_DIGEST),
        made_from=_annotation(value, labels.MADE_FROM),
    )


def _memory(value: views.Object, *, attempt: int) -> tuple[carried.Carried, carried.Ended | None, str | None]:
    """Return what a Job's annotations say of this attempt and those before it, or why they cannot be read."""
    try:
        taken_over = carried.of_attempt(_annotation(value, labels.CARRIED), attempt=attempt)
        return taken_over, carried.end(_annotation(value, labels.ENDED)), None
    except errors.InvalidInputError as error:
        return carried.FIRST, None, str(error)


def revision(value: views.Object) -> int:
    """Of a pod, or of a pod template."""
    return texts.number(((value.get("metadata") or {}).get("annotations") or {}).get(labels.REVISION, ""))


def _graph(value: views.Object) -> GraphDigest | None:
    """Return the digest; None where somebody spoilt it."""
    found = _annotation(value, labels.GRAPH)
    return None if found is None or not _DIGEST.fullmatch(found) else GraphDigest(found)


def _of_graph(grant: grants.Grant | None, graph: GraphDigest | None) -> grants.Grant | None:
    return None if grant is None else replace(grant, graph=graph)


def _queued_since(template: views.Object) -> datetime | None:
    """Since when the pods of a template count as waiting; None where it does not say so, or somebody spoilt it."""
    return texts.time(((template.get("metadata") or {}).get("annotations") or {}).get(names.QUEUED_SINCE))


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _is_before(first: views.Object | None, second: views.Object | None) -> bool:
    """Return whether a condition holds, and came in an earlier second than another one, where that holds."""
    if first is None or second is None:
        return first is not None
    one, other = _time(first.get("lastTransitionTime")), _time(second.get("lastTransitionTime"))
    return one is not None and other is not None and one < other


def condition(item: views.Object | None) -> conditions.Condition | None:
    """Return a condition of a built-in kind."""
    if item is None:
        return None
    return conditions.Condition(
        type=item["type"],
        status=conditions.Status(item["status"]),
        reason=item.get("reason") or item["type"],
        message=item.get("message") or "",
        last_transition_time=item.get("lastTransitionTime") or "",
    )


def _placement(value: views.Object) -> placement.Placement | None:
    text = _annotation(value, names.PLACEMENT)
    if text is None:
        return None
    try:
        return placement.Placement.from_json(text, source=names.PLACEMENT)
    except errors.InvalidInputError:
        # The agent refuses such a pod and names it; here it is a pod that is not placed.
        return None
