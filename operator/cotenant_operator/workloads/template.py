"""The pod template of a DLJob: the user's, with what the pod contract of Cotenant needs added. Pure."""

import copy
from collections.abc import Mapping
from typing import Any, Final

from cotenant_api import dljob, names, pod, quantity
from cotenant_operator import labels
from cotenant_operator.state import grants, views
from cotenant_operator.workloads import environment

MANAGER: Final = labels.FIELD_MANAGER


def pod_template(
    owner: views.DLJob, spec: dljob.Spec, grant: grants.Grant, *, attempt: int, gang: str | None
) -> dict[str, Any]:
    """Return the template of every pod.

    Args:
        owner: the DLJob.
        spec: what it says.
        grant: what its pods ask for.
        attempt: from 1; 0 for a Deployment, which has none.
        gang: name of the gang whose pods start together.
    """
    template = copy.deepcopy(dict(spec.template))
    metadata, inner = template.setdefault("metadata", {}), template.setdefault("spec", {})
    metadata.pop("name", None)
    metadata["labels"] = {
        **labels.copied(owner.meta.labels),
        **(metadata.get("labels") or {}),
        **pod_labels(owner, attempt=attempt),
    }
    # Pods with that label are an extraction's: nobody would look at these.
    metadata["labels"].pop(labels.EXTRACTION, None)
    metadata["annotations"] = {
        **_of_user(metadata.get("annotations") or {}),
        **annotations(spec, grant, gang=gang),
    }
    training = spec.workload_type is pod.WorkloadType.TRAINING
    inner.setdefault("restartPolicy", "Never" if training else "Always")
    container = _container(inner, spec.container)
    _ask(container, grant)
    # The last words of a container say what it ran out of, and nobody need read its log for them.
    # An empty text is none to the API server, too.
    container["terminationMessagePolicy"] = container.get("terminationMessagePolicy") or "FallbackToLogsOnError"
    if gang is not None:
        inner["subdomain"] = inner.get("subdomain") or service_name(owner)
    if training:
        _set_default_environment(container, environment.variables(spec, attempt=attempt, master=_master(inner, gang)))
    if grant.observed_only:
        if inner.get("schedulerName") == names.SCHEDULER_NAME:
            del inner["schedulerName"]
        return template
    inner["schedulerName"] = names.SCHEDULER_NAME
    gates = [gate for gate in inner.get("schedulingGates") or () if gate.get("name") != names.PACKING_GATE]
    inner["schedulingGates"] = [*gates, {"name": names.PACKING_GATE}]
    return template


def pod_labels(owner: views.DLJob, *, attempt: int) -> dict[str, str]:
    """Labels of every pod."""
    return {**workload_labels(owner, attempt=attempt), names.DLJOB_UID_LABEL: owner.meta.uid}


def workload_labels(owner: views.DLJob, *, attempt: int) -> dict[str, str]:
    """Labels of a Job or Deployment."""
    found = {names.DLJOB_LABEL: owner.meta.key.name, labels.MANAGED_BY: MANAGER}
    return {**found, names.ATTEMPT_LABEL: str(attempt)} if attempt else found


def annotations(spec: dljob.Spec, grant: grants.Grant, *, gang: str | None) -> dict[str, str]:
    """Return what a pod says of itself."""
    found = {
        names.WORKLOAD_TYPE: spec.workload_type.value,
        names.PROCESSES_PER_GPU: str(spec.processes_per_gpu),
    }
    if grant.prediction is not None:
        found[names.PREDICTION] = grant.prediction
    memory = grant.gpu_memory or spec.gpu_memory
    if memory is not None:
        found[names.GPU_MEMORY] = _at_least(memory)
    if grant.suspect_seconds is not None:
        found[names.SUSPECT_SECONDS] = grant.suspect_seconds
    if spec.minimum_run_seconds is not None:
        found[names.MINIMUM_RUN_SECONDS] = str(spec.minimum_run_seconds)
    if grant.gpu_models is not None:
        found[names.GPU_MODELS] = grant.gpu_models
    if gang is not None:
        found[names.GANG] = pod.Gang(name=gang, size=spec.replicas).to_json()
    return found


def _at_least(memory: str) -> str:
    """Raise memory to the least that admission lets a pod ask for: a tiny job may be measured at less."""
    mib = quantity.mebibytes(memory, field="spec.gpuMemory")
    return memory if mib >= dljob.MIN_GPU_MEMORY_MIB else f"{dljob.MIN_GPU_MEMORY_MIB}Mi"


def _of_user(found: Mapping[str, str]) -> dict[str, str]:
    """Return the user's annotations without Cotenant's own: what they say of a pod, the DLJob's fields do.

    Memory that an annotation added to a predicted share would be booked, and count against no quota.
    """
    return {key: text for key, text in found.items() if not key.startswith(f"{names.GROUP}/")}


def service_name(owner: views.DLJob) -> str:
    """Return the name of a gang's Service: none that others give to theirs, whatever the DLJob is called.

    The pods of a namespace find a Service by its name. Who may make DLJobs and no Services must not choose it.
    """
    return f"gang-{owner.meta.key.name}"


def _container(inner: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Return the container that gets the GPU; the API server has checked that it is there."""
    containers: list[dict[str, Any]] = inner["containers"]
    return next((container for container in containers if container.get("name") == name), containers[0])


def _ask(container: dict[str, Any], grant: grants.Grant) -> None:
    resource = grants.NVIDIA_GPU if grant.observed_only else names.GPU_SHARE
    amount = str(grant.gpus if grant.observed_only else grant.share)
    resources = container.setdefault("resources", {})
    for kind in ("requests", "limits"):
        resources[kind] = {**(resources.get(kind) or {}), resource: amount}


def _master(inner: dict[str, Any], gang: str | None) -> str | None:
    """Return the DNS name of a gang's first member; the Job controller names its pods by the Job and their index."""
    return None if gang is None else f"{gang}-0.{inner['subdomain']}"


def _set_default_environment(container: dict[str, Any], wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Add the wanted variables that a container lacks."""
    container["env"] = [*(container.get("env") or ()), *lacking(container, wanted)]


def lacking(container: Mapping[str, Any], wanted: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the wanted variables that a container lacks: what the user set stands."""
    taken = {item.get("name") for item in container.get("env") or ()}
    return [{"name": name, **value} for name, value in wanted.items() if name not in taken]
