"""The environment of a training job's GPU container. Pure; what the user set stands.

Names and port of torchrun's variables are those that Kubeflow's TrainJob sets; what a member is called is what the
Job controller and a headless Service make of an Indexed Job, as in JobSet.
"""

from typing import Any, Final

from cotenant_api import dljob
from cotenant_operator import labels

ATTEMPT: Final = "COTENANT_ATTEMPT"
"""Number of the attempt, from 1."""
MAY_RESUME: Final = "COTENANT_MAY_RESUME"
"""`true` from the second attempt on: there may be a checkpoint of an earlier one."""
MASTER_PORT: Final = 29500
_RANK: Final = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{labels.COMPLETION_INDEX}']"}}}


def variables(spec: dljob.Spec, *, attempt: int, master: str | None) -> dict[str, dict[str, Any]]:
    """Variables by name, in an order in which later ones may refer to earlier ones.

    Args:
        spec: of the DLJob.
        attempt: from 1.
        master: DNS name of a gang's first member; None: it is no gang.
    """
    found: dict[str, dict[str, Any]] = {
        ATTEMPT: {"value": str(attempt)},
        MAY_RESUME: {"value": "true" if attempt > 1 else "false"},
    }
    if spec.gpus_per_replica > 1 or master is not None:
        found["PET_NPROC_PER_NODE"] = {"value": str(spec.gpus_per_replica)}
    if master is None:
        return found
    return found | {
        "WORLD_SIZE": {"value": str(spec.replicas)},
        "RANK": _RANK,
        "MASTER_ADDR": {"value": master},
        "MASTER_PORT": {"value": str(MASTER_PORT)},
        "PET_NNODES": {"value": str(spec.replicas)},
        "PET_NODE_RANK": _RANK,
        # Whoever sets these two sets torchrun's as well.
        "PET_MASTER_ADDR": {"value": "$(MASTER_ADDR)"},
        "PET_MASTER_PORT": {"value": "$(MASTER_PORT)"},
    }
