"""The runs of a sweep: DLJobs that its DLJob controls. Pure: a value in, a manifest out."""

import json
from typing import Any, Final

from cotenant_api import dljob, names
from cotenant_operator import labels
from cotenant_operator.state import sweeps, views
from cotenant_operator.workloads import builders, template

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
    if copied := labels.copied(owner.meta.labels):
        # Of its own labels a run has Cotenant's and Kueue's alone.
        pods = content["template"].setdefault("metadata", {})
        pods["labels"] = {**copied, **(pods.get("labels") or {})}
    metadata = builders.owned_metadata(owner, name=sweeps.run_name(owner.meta.key.name, index), attempt=0)
    metadata["labels"] |= {names.COMPLETION_INDEX_LABEL: str(index), **labels.of_kueue(owner.meta.labels)}
    made = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": metadata, "spec": content}
    return builders.suspended(made, suspend=False)
