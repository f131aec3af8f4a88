"""The Kubernetes objects that a DLJob becomes. Pure: a value in, a manifest out."""

from datetime import datetime
from typing import Any, Final

from cotenant_api import conditions, dljob, names, services
from cotenant_operator import labels
from cotenant_operator.state import carried, grants, shortages, views
from cotenant_operator.workloads import digests, template

DEFAULT_BACKOFF_LIMIT: Final = 6
"""As batch/v1."""
FORMER_FIRST: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
"""A pod of the former template goes before the one in its stead is made."""
DISRUPTED: Final = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
"""Before the user's rules: what was evicted may end with any exit code."""


def job_name(owner: views.DLJob, attempt: int) -> str:
    """Return the Job of an attempt; the same name whoever computes it."""
    return f"{owner.meta.key.name}-{attempt}"


def job(
    owner: views.DLJob,
    spec: dljob.Spec,
    grant: grants.Grant,
    *,
    attempt: int,
    taken_over: carried.Carried = carried.FIRST,
) -> dict[str, Any]:
    """Return the Indexed Job of one attempt. A gang's ends when one member fails; the operator starts the next."""
    gang = spec.replicas > 1
    name = job_name(owner, attempt)
    metadata = _managed(owner, spec, name=name, attempt=attempt)
    metadata["annotations"] |= _graph(grant)
    if attempt > 1 or taken_over != carried.FIRST:
        metadata["annotations"][labels.CARRIED] = taken_over.to_json()
    content: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": spec.replicas,
        "parallelism": spec.replicas,
        "backoffLimit": restarts(spec, taken_over),
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [DISRUPTED, *_failure_rules(spec)]},
        "template": template.pod_template(owner, spec, grant, attempt=attempt, gang=name if gang else None),
    }
    if spec.success_policy is not None and gang:
        content["successPolicy"] = spec.success_policy.to_object()
    if spec.managed_by is not None:
        content["managedBy"] = spec.managed_by.value
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": content}
    return suspended(made, suspend=labels.KUEUE_QUEUE in owner.meta.labels)


def suspended(change: dict[str, Any], *, suspend: bool) -> dict[str, Any]:
    """Let a Job, or a patch of one, suspend it or not, and note that this was written."""
    change.setdefault("spec", {})["suspend"] = suspend
    return noted(change, suspend=suspend)


def noted(change: dict[str, Any], *, suspend: bool) -> dict[str, Any]:
    """Note on a Job, or in a patch of one, that this is what was last written into `suspend`."""
    change.setdefault("metadata", {}).setdefault("annotations", {})[labels.SUSPEND] = str(suspend).lower()
    return change


def scaled(change: dict[str, Any], replicas: int, *, written: int) -> dict[str, Any]:
    """Let a Deployment, or a patch of one, have so many replicas, and note how many the DLJob wants."""
    change.setdefault("spec", {})["replicas"] = replicas
    change.setdefault("metadata", {}).setdefault("annotations", {})[labels.REPLICAS] = str(written)
    return change


def queued(manifest: dict[str, Any], *, since: datetime) -> dict[str, Any]:
    """Let the pods of a Job count as waiting since then, unless Kueue decides when there are any."""
    if labels.KUEUE_QUEUE not in manifest["metadata"]["labels"]:
        manifest["spec"]["template"]["metadata"]["annotations"][names.QUEUED_SINCE] = conditions.timestamp(since)
    return manifest


def needs_service(spec: dljob.Spec) -> bool:
    """Return whether the pods find one another by a Service of ours.

    A gang whose user has not named another subdomain.
    """
    return spec.replicas > 1 and not spec.template.get("spec", {}).get("subdomain")


def headless_service(owner: views.DLJob) -> dict[str, Any]:
    """Return a Service by which a gang's pods find one another: `<dljob>-<attempt>-<index>.gang-<dljob>`."""
    metadata = owned_metadata(owner, name=template.service_name(owner), attempt=0)
    content = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector(owner),
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": content}


def service(owner: views.DLJob, wanted: services.Service) -> dict[str, Any]:
    """Return the Service in front of the replicas of an inference job, as `spec.service` asks for it.

    Pods that extract the graph have the same labels, and get no requests: they are never ready.
    """
    metadata = owned_metadata(owner, name=wanted.name or owner.meta.key.name, attempt=0)
    content = {"type": "ClusterIP", "selector": selector(owner), "ports": [port.to_object() for port in wanted.ports]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": content}


def selector(owner: views.DLJob) -> dict[str, str]:
    """Return the labels by which Deployments and Services find the pods of a DLJob, and of no other of its name."""
    return {names.DLJOB_LABEL: owner.meta.key.name, names.DLJOB_UID_LABEL: owner.meta.uid}


def deployment(
    owner: views.DLJob,
    spec: dljob.Spec,
    grant: grants.Grant,
    *,
    revision: int = 0,
    lessons: shortages.Lessons = shortages.NO_LESSONS,
) -> dict[str, Any]:
    """Return the Deployment of an inference job; without replicas while it is suspended.

    Args:
        owner: the DLJob.
        spec: what it says.
        grant: what its pods ask for.
        revision: number of the pod template, from 0.
        lessons: what its pods have taught.
    """
    made = template.pod_template(owner, spec, grant, attempt=0, gang=None)
    if revision:
        made["metadata"]["annotations"][labels.REVISION] = str(revision)
    wanted = wanted_replicas(spec)
    content: dict[str, Any] = {
        "selector": {"matchLabels": selector(owner)},
        "template": made,
    }
    metadata = _managed(owner, spec, name=owner.meta.key.name, attempt=0)
    metadata["annotations"] |= _graph(grant)
    if lessons.shortage != shortages.NONE:
        metadata["annotations"][labels.SHORTAGE] = lessons.shortage.to_json()
    if lessons.suspicion is not None:
        metadata["annotations"][labels.SUSPICION] = lessons.suspicion.to_json()
        # A pod of before would go on among new neighbours, no suspect, until one of these can start.
        content["strategy"] = FORMER_FIRST
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": content}
    return scaled(manifest, wanted, written=wanted)


def owner_reference(owner: views.DLJob) -> dict[str, Any]:
    """Return what makes the DLJob the controlling owner of an object.

    The garbage collector deletes the object after the DLJob.
    """
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DLJob",
        "name": owner.meta.key.name,
        "uid": owner.meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def wanted_replicas(spec: dljob.Spec) -> int:
    """Return how many replicas of an inference job are to run."""
    return 0 if spec.suspend else spec.replicas


def backoff_limit(spec: dljob.Spec) -> int:
    """Return how many failures a training job survives."""
    return DEFAULT_BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit


def restarts(spec: dljob.Spec, taken_over: carried.Carried) -> int:
    """Return how many failures the Job controller may answer with another pod: none in a gang, else what is left."""
    return 0 if spec.replicas > 1 else max(backoff_limit(spec) - taken_over.failures, 0)


def _failure_rules(spec: dljob.Spec) -> list[dict[str, Any]]:
    """Return the user's rules, as batch/v1 has them."""
    rules = () if spec.pod_failure_policy is None else spec.pod_failure_policy.rules
    found = [rule.to_object() for rule in rules]
    for rule in found:
        # batch/v1 takes them in order alone.
        rule["onExitCodes"]["values"].sort()
    return found


def _graph(grant: grants.Grant) -> dict[str, str]:
    return {} if grant.graph is None else {labels.GRAPH: str(grant.graph)}


def _managed(owner: views.DLJob, spec: dljob.Spec, *, name: str, attempt: int) -> dict[str, Any]:
    """Return the metadata of a Job or Deployment, with the labels by which Kueue manages it."""
    metadata, kueue = owned_metadata(owner, name=name, attempt=attempt), labels.of_kueue(owner.meta.labels)
    metadata["labels"].update(kueue)
    return {**metadata, "annotations": digests.annotations(spec, kueue)}


def owned_metadata(owner: views.DLJob, *, name: str, attempt: int) -> dict[str, Any]:
    """Return the metadata of what the operator makes for a DLJob; `attempt`: 0 where it belongs to none."""
    return {
        "name": name,
        "namespace": owner.meta.key.namespace,
        "labels": template.workload_labels(owner, attempt=attempt),
        "ownerReferences": [owner_reference(owner)],
    }
