"""Jobs as they are, beside what is believed of them. Frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant_api import pod, prediction
from cotenant_api.names import GPUModel, Namespace

NAMESPACE: Final = Namespace("simulated")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """What many jobs have in common: one graph, with what is believed of it and what is true.

    Attributes:
        name: of the model and its batch.
        predicted: what is believed before any of them ran; None: nothing.
        real: what they need where they run alone, by GPU model; of every range the median is the truth.
    """

    name: str
    predicted: prediction.Prediction | None
    real: Mapping[GPUModel, prediction.GPUPrediction]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """One job: a pod, or a gang of pods that start and end together.

    Attributes:
        kind: what each of its pods needs.
        arrives: seconds since the beginning.
        seconds: how long it runs alone with all threads, by GPU model; a gang as long as its slowest pod.
        replicas: how many pods; more than one are a gang, which is placed whole or not at all.
        gpus: how many GPUs a pod has; more than one are whole, and of one node.
        checkpoint_seconds: of its work, after each of which it is safe; None: it is when the job is done.
        minimum_run_seconds: for so long no pod of it is evicted for another.
    """

    name: str
    kind: Kind
    arrives: float
    seconds: Mapping[GPUModel, float]
    namespace: Namespace = NAMESPACE
    replicas: int = 1
    gpus: int = 1
    priority: int = 0
    workload_type: pod.WorkloadType = pod.WorkloadType.TRAINING
    checkpoint_seconds: float | None = None
    minimum_run_seconds: int = 0
