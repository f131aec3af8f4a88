"""Labels and annotations that the operator alone writes and reads, on what it makes."""

from collections.abc import Collection, Mapping
from typing import Final

from cotenant_api import names

FIELD_MANAGER: Final = "cotenant-operator"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MADE_FROM: Final = f"{names.GROUP}/made-from"
"""On Jobs and Deployments: which spec of the DLJob they were made from, and what of it their prediction rests on."""
SPEC_DIGEST: Final = f"{names.GROUP}/spec-digest"
MODEL_DIGEST: Final = f"{names.GROUP}/model-digest"
"""On Jobs and Deployments: the same two as release 0.1.0 computes them, which goes by them after a rollback."""
GRAPH: Final = f"{names.GROUP}/graph"
"""On Jobs and Deployments: the digest of the graph that they compute, where it is known."""
CARRIED: Final = f"{names.GROUP}/carried"
"""On the Job of an attempt: what it takes over from those before it."""
SHORTAGE: Final = f"{names.GROUP}/gpu-memory-shortage"
"""On Deployments: what running out of GPU memory has taught."""
SUSPICION: Final = f"{names.GROUP}/suspicion"
"""On Deployments: what is held against them, of faults that nobody knows the cause of."""
REVISION: Final = f"{names.GROUP}/revision"
"""On a Deployment's pods: number of the template, from 0. What befalls a pod of a former one has been answered."""
ENDED: Final = f"{names.GROUP}/ended"
"""On the Job of an attempt: why it was ended, or why it failed."""
DISRUPTED: Final = f"{names.GROUP}/disrupted"
"""On the Job of a single replica: UID of its pod that is being taken away. That it ends well then is no success."""
EXTRACTION: Final = f"{names.GROUP}/extraction"
"""On what a graph is extracted with, and on the result: a digest of what is run. Attempts do not have it."""
EXTRACTION_CONTAINER: Final = "extract"
"""The container of its pod; admission may have added others."""
EXTRACTION_NUMBER: Final = f"{names.GROUP}/extraction-number"
"""On the Job of an extraction: which try it is, from 1."""
QUOTA_SETBACK: Final = f"{names.GROUP}/quota-setback"
"""On the Job of a gang: how often its quota did not take all its pods, and when it last did not."""
SUSPEND: Final = f"{names.GROUP}/suspend"
"""On the Job of an attempt, and on a run of a sweep: what the operator last wrote into `spec.suspend`, as others do."""
REPLICAS: Final = f"{names.GROUP}/replicas"
"""On Deployments: what the operator last wrote into `spec.replicas`, which autoscalers write, too."""
FENCE: Final = f"{names.GROUP}/fence"
"""On Jobs and Deployments: the version over which a fence was written, so that no fence is without effect."""
SWEEP_DIGEST: Final = f"{names.GROUP}/sweep-digest"
"""On a run of a sweep: digest of what the sweep said when the run was made, or when it was last brought up to date."""
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
KUEUE: Final = "kueue.x-k8s.io/"
"""Labels of Kueue on a DLJob go to its Job, which Kueue then starts and stops, or to its Deployment."""
KUEUE_QUEUE: Final = f"{KUEUE}queue-name"
"""The one of them that puts it into a queue."""


def is_copied(label: str, keys: Collection[str]) -> bool:
    """Return whether a DLJob's label is one of those that its pods get, too; a key that ends in a slash is a prefix."""
    prefix, slash, _ = label.partition("/")
    return label in keys or (bool(slash) and f"{prefix}/" in keys)


def copied(found: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a DLJob gives to its pods, of those that are kept of it."""
    return {key: text for key, text in found.items() if not key.startswith((KUEUE, f"{names.GROUP}/"))}


def is_kept(label: str) -> bool:
    """Return whether a label is needed after an object was read."""
    return label == names.DLJOB_LABEL or label.startswith(KUEUE)


def of_kueue(found: Mapping[str, str]) -> dict[str, str]:
    """Return the labels by which Kueue manages what has them."""
    return {key: text for key, text in found.items() if key.startswith(KUEUE)}
