"""What Horus published: Yeung et al., "Towards GPU Utilization Prediction for Cloud Deep Learning", HotCloud 2020.

Section 6 and Table 4: 12 GPUs (RTX 2080), 100 jobs of 2 minutes to 2 hours, each way five times.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cotenant_api.names import GPUModel

GPUS: Final = 12
GPU_MODEL: Final = GPUModel("NVIDIA-GeForce-RTX-2080")
JOBS: Final = 100
SHORTEST_SECONDS: Final = 120.0
LONGEST_SECONDS: Final = 7200.0
REPEATS: Final = 5
MAX_TENANTS: Final = 3
RMSLE: Final = 0.154
"""Of its predictions of utilization."""


class Definitions(enum.StrEnum):
    """Where the models' definitions are from: the study names both repositories, and not which model is from which."""

    TORCHVISION = "torchvision"
    """Made for images of 224 x 224. Predicted to keep a GPU busy as much as the study saw its models do."""
    PYTORCH_CIFAR = "pytorch-cifar"
    """Made for 32 x 32, with several times the work: most are predicted to leave nothing of a GPU."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way's published figures.

    Attributes:
        utilization_percent: mean of the cluster.
        makespan_change_percent: against slots.
        completion_seconds: mean; slots have the least, so that it must be the run time without the wait.
    """

    utilization_percent: float
    makespan_change_percent: float | None
    completion_seconds: float


ROWS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "Slot": Row(utilization_percent=43.1, makespan_change_percent=0.0, completion_seconds=1869.0),
        "Reactive": Row(utilization_percent=47.1, makespan_change_percent=None, completion_seconds=2193.0),
        "Horus": Row(utilization_percent=69.6, makespan_change_percent=-33.5, completion_seconds=2024.0),
    }
)
"""Against Reactive the makespan is 26.5 % shorter; what Reactive's is against slots is not said."""
