"""What a pod needs on one GPU, and what it is held to there.

    share  = max(requested share, clamp(ceil(100 x upper / maxUtilizationPercent), 1, 100), memory's part)
             (cotenant_api.booking: placements that stand for sharing without predictions count otherwise)
    memory = annotated, else predicted upper bound, else share percent of the bookable memory

Quotas count what is requested. So a pod without prediction, whose author chose both, is refused where its memory is a
larger part of the GPU than the share that it requests; of others the operator saw to it on one GPU model at least.

Memory is not checked for n > 1 whole GPUs, nor for 100 hundredths with neither prediction nor annotation: such a pod
books all that may be booked.

Client priority: 1 (below normal) for training that joins inference on a shared GPU, else 0. It is chosen once, at
bind: inference that joins training later leaves it unchanged.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cotenant_api import booking, pod, prediction
from cotenant_api.names import HUNDREDTHS, GPUModel
from cotenant_extender.packing import policies, view
from cotenant_extender.packing.causes import Cause


class Need(NamedTuple):
    """What is booked on one GPU of a model.

    Attributes:
        share: hundredths.
        memory_mib: memory in MiB; None: `share` percent of what may be booked.
        memory_checked: whether that memory must be free.
    """

    share: int
    memory_mib: int | None
    memory_checked: bool

    def booked_mib(self, bookable_mib: int) -> int:
        """Memory booked on a GPU of which so much may be booked, in MiB."""
        return bookable_mib * self.share // HUNDREDTHS if self.memory_mib is None else self.memory_mib


def on_gpu(demand: pod.Demand, gpu: view.GPU, policy: policies.InForce) -> Need | Cause:
    """Return what the pod needs on a GPU, with at least its part of the memory; or why it may not use it."""
    found, bookable = need(demand, gpu.model, policy), policy.bookable_mib(gpu)
    if isinstance(found, Cause) or not found.memory_checked or found.memory_mib is None or found.memory_mib > bookable:
        return found
    part = booking.memory_part(found.memory_mib, bookable)
    if demand.predicted is None:
        return found if part <= demand.share else Cause.MEMORY_ABOVE_SHARE
    return found._replace(share=max(found.share, part))


def predicted_on(demand: pod.Demand, model: GPUModel) -> prediction.GPUPrediction | None:
    """Return the prediction for a GPU model, if the pod has one."""
    return None if demand.predicted is None else demand.predicted.by_gpu.get(model)


def need(demand: pod.Demand, model: GPUModel, policy: policies.InForce) -> Need | Cause:
    """Return what the pod needs on a GPU of this model, or why it may not use it.

    A predicted pod may use no model without.
    """
    if demand.gpu_models and model not in demand.gpu_models:
        return Cause.OTHER_MODEL
    predicted = predicted_on(demand, model)
    if demand.predicted is not None and predicted is None:
        return Cause.NOT_PREDICTED
    if demand.gpus > 1 or (demand.whole and predicted is None and demand.memory_mib is None):
        return Need(HUNDREDTHS, None, memory_checked=False)
    source = None if demand.predicted is None else demand.predicted.source
    share = booking.cost(share=demand.share, predicted=predicted, packing=policy.packing(model), source=source)
    memory = demand.memory_mib
    if memory is None and predicted is not None:
        memory = predicted.memory_mib.upper
    return Need(share, memory, memory_checked=True)


def client_priority(demand: pod.Demand, beside: Iterable[pod.WorkloadType]) -> int:
    """MPS client priority beside tenants of these types: 0 normal, 1 below."""
    if demand.workload_type is not pod.WorkloadType.TRAINING:
        return 0
    return 1 if pod.WorkloadType.INFERENCE in beside else 0
