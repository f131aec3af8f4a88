"""What the pods of a workload ask for, as its pod template says it. Pure.

A grant is fixed when a workload is made; it is read back from the workload, never kept anywhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant_api import errors, names, quantity
from cotenant_api.names import GraphDigest
from cotenant_api.prediction import Prediction

NVIDIA_GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """What every pod of a workload asks for.

    Attributes:
        share: hundredths of a GPU; n x 100 for n whole ones.
        prediction: the annotation's text; None for whole GPUs.
        gpu_models: the annotation's text; None: any model.
        observed_only: mode Observe: `nvidia.com/gpu` of the default scheduler instead of a share.
        gpu_memory: the annotation's text; None: what the prediction says.
        suspect_seconds: for so long they share no GPU with another suspect of a fault; None: they are no suspects.
        graph: what the pods compute, where it is known; they do not say it themselves.
    """

    share: int
    prediction: str | None
    gpu_models: str | None
    observed_only: bool = False
    gpu_memory: str | None = None
    suspect_seconds: str | None = None
    graph: GraphDigest | None = field(default=None, compare=False)

    @property
    def gpus(self) -> int:
        """How many GPUs a pod gets at most a part of."""
        return max(self.share // names.HUNDREDTHS, 1)

    def document(self) -> Prediction | None:
        """Return the prediction; None where there is none that can be read: somebody changed the workload."""
        if self.prediction is None:
            return None
        try:
            return Prediction.from_json(self.prediction, source=names.PREDICTION)
        except errors.InvalidInputError:
            return None


def read(template: Mapping[str, Any]) -> Grant | None:
    """Return the grant that a pod template carries; None where it carries none.

    Raises:
        InvalidInputError: an amount of GPUs is no whole number.
    """
    notes = (template.get("metadata") or {}).get("annotations") or {}
    for container in template["spec"].get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        if names.GPU_SHARE in limits:
            return Grant(
                share=_whole(limits, names.GPU_SHARE),
                prediction=notes.get(names.PREDICTION),
                gpu_models=notes.get(names.GPU_MODELS),
                gpu_memory=notes.get(names.GPU_MEMORY),
                suspect_seconds=notes.get(names.SUSPECT_SECONDS),
            )
        if NVIDIA_GPU in limits:
            share = names.HUNDREDTHS * _whole(limits, NVIDIA_GPU)
            models = notes.get(names.GPU_MODELS)
            memory = notes.get(names.GPU_MEMORY)
            return Grant(share=share, prediction=None, gpu_models=models, observed_only=True, gpu_memory=memory)
    return None


def _whole(limits: Mapping[str, Any], resource: str) -> int:
    """Return an amount of a resource; the API server writes 1000 as "1k"."""
    return quantity.integer(limits[resource], field=f"spec.template: resources.limits[{resource}]")
