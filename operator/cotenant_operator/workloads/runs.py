"""The runs of a sweep: DLJobs that its DLJob controls. Pure: a value in, a manifest out."""

import json
from collections.abc import Mapping
from typing import Any, Final

from cotenant_api import dljob, names
from cotenant_operator import labels
from cotenant_operator.state import sweeps, views
from cotenant_operator.workloads import builders, digests, template

COMPLETION_INDEX: Final = "COTENANT_COMPLETION_INDEX"
"""Index of the run, from 0."""
JOB_COMPLETION_INDEX: Final = "JOB_COMPLETION_INDEX"
"""The same, as batch/v1 calls it; the Job controller leaves it as it stands. In a gang it is the member's index."""
_OF_THE_SWEEP: Final = ("completions", "parallelism", "suspend", "ttlSecondsAfterFinished")
"""Fields that say something of all runs together."""


def manifest(owner: views.DLJob, spec: dljob.Spec, index: int) -> dict[str, Any]:
    """Return a run of a sweep: its DLJob as the user wrote it, with the index in every container.

    Args:
        owner: the DLJob of the sweep, which has a spec.
        spec: the same spec, as a value.
        index: of the run.
    """
    written: dict[str, Any] = json.loads(owner.text or b"{}")
    content = {field: value for field, value in written.items() if field not in _OF_THE_SWEEP}
    inner = content["template"]["spec"]
    added = {COMPLETION_INDEX: {"value": str(index)}}
    if spec.replicas == 1:
        added[JOB_COMPLETION_INDEX] = {"value": str(index)}
    for container in (*inner.get("initContainers", ()), *inner["containers"]):
        # First, so that what the user sets may refer to it.
        container["env"] = [*template.lacking(container, added), *(container.get("env") or ())]
    if copied := _copied(owner, spec):
        # Of its own labels a run has Cotenant's and Kueue's alone.
        pods = content["template"].setdefault("metadata", {})
        pods["labels"] = {**copied, **(pods.get("labels") or {})}
    metadata = builders.owned_metadata(owner, name=sweeps.run_name(owner.meta.key.name, index), attempt=0)
    metadata["labels"] |= {names.COMPLETION_INDEX_LABEL: str(index), **labels.of_kueue(owner.meta.labels)}
    metadata["annotations"] = {labels.SWEEP_DIGEST: digest(owner, spec)}
    made = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": metadata, "spec": content}
    return builders.suspended(made, suspend=False)


def digest(owner: views.DLJob, spec: dljob.Spec) -> str:
    """Return the digest of what a sweep says to its runs. Equal ones make equal runs."""
    return digests.of_runs(spec, {**labels.of_kueue(owner.meta.labels), **_copied(owner, spec)})


def noted(found: str) -> dict[str, Any]:
    """Return the patch of a run that notes the digest of its sweep."""
    return {"metadata": {"annotations": {labels.SWEEP_DIGEST: found}}}


def update(standing: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that brings a run to what its sweep says; `suspend` stays as it is.

    Args:
        standing: the run as the API server has it.
        wanted: the run as it would be made now.
    """
    there, metadata = standing["metadata"].get("labels") or {}, wanted["metadata"]
    gone = dict.fromkeys(labels.of_kueue(there).keys() - metadata["labels"].keys())
    patch = noted(metadata["annotations"][labels.SWEEP_DIGEST])
    patch["metadata"]["labels"] = {**gone, **labels.of_kueue(metadata["labels"])}
    spec = _difference(standing["spec"], wanted["spec"])
    spec.pop("suspend", None)
    return {**patch, "spec": spec}


def _copied(owner: views.DLJob, spec: dljob.Spec) -> dict[str, str]:
    """Return the labels of the sweep that the pods get: those that the template does not set itself."""
    own = (spec.template.get("metadata") or {}).get("labels") or {}
    return {key: text for key, text in labels.copied(owner.meta.labels).items() if key not in own}


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that makes one JSON object of another: null removes a field, lists go as a whole."""
    changed: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if inner := _difference(before, value):
                changed[key] = inner
        elif before != value:
            changed[key] = value
    return changed
