"""What a pod needs on one GPU, and what it is held to there.

    share  = max(requested share, clamp(ceil(100 x upper / maxUtilizationPercent), 1, 100))   (cotenant_api.booking)
    memory = annotated, else predicted upper bound, else share percent of the bookable memory

Memory is not checked for n > 1 whole GPUs, nor for 100 hundredths with neither prediction nor annotation: such a pod
books all that may be booked.

Thread percentage: 100 where the GPU is booked whole, or with `threadPartition: None`; with `Proportional` the booked
share; with `Demand` the predicted thread demand, never below the booked share; without prediction the booked share.

Client priority: 1 (below normal) for training that joins inference on a shared GPU, else 0. It is chosen once, at
bind: inference that joins training later leaves it unchanged.
"""

from typing import NamedTuple

from cotenant_api import booking, packingpolicy, pod, prediction
from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import policies, view


class Need(NamedTuple):
    """What is booked on one GPU.

    Attributes:
        share: hundredths.
        memory_mib: memory in MiB.
        memory_checked: whether that memory must be free.
    """

    share: int
    memory_mib: int
    memory_checked: bool


def predicted_on(demand: pod.Demand, gpu: view.GPU) -> prediction.GPUPrediction | None:
    """The prediction for a GPU's model, if the pod has one."""
    return None if demand.predicted is None else demand.predicted.by_gpu.get(gpu.model)


def need(demand: pod.Demand, gpu: view.GPU, policy: policies.InForce) -> Need:
    """What the pod needs on this GPU, which is of a model that it may use."""
    packing = policy.packing(gpu.model)
    bookable = booking.bookable_mib(gpu.memory_mib, packing)
    if demand.gpus > 1:
        return Need(HUNDREDTHS, bookable, memory_checked=False)
    predicted = predicted_on(demand, gpu)
    if demand.whole and predicted is None and demand.memory_mib is None:
        return Need(HUNDREDTHS, bookable, memory_checked=False)
    share = booking.cost(share=demand.share, predicted=predicted, packing=packing)
    memory = booking.booked_mib(share=share, annotated_mib=demand.memory_mib, predicted=predicted, bookable=bookable)
    return Need(share, memory, memory_checked=True)


def thread_percentage(demand: pod.Demand, gpu: view.GPU, share: int, policy: policies.InForce) -> int:
    """Percentage of the SMs that the pod's kernels may use."""
    if share >= HUNDREDTHS:
        return 100
    predicted = predicted_on(demand, gpu)
    match policy.packing(gpu.model).thread_partition:
        case packingpolicy.ThreadPartition.NONE:
            return 100
        case packingpolicy.ThreadPartition.PROPORTIONAL:
            return share
        case packingpolicy.ThreadPartition.DEMAND:
            return share if predicted is None else max(share, predicted.thread_percentage)


def client_priority(demand: pod.Demand, gpu: view.GPU) -> int:
    """MPS client priority: 0 normal, 1 below."""
    if demand.workload_type is not pod.WorkloadType.TRAINING:
        return 0
    beside_inference = any(tenant.workload_type is pod.WorkloadType.INFERENCE for tenant in gpu.tenants)
    return 1 if beside_inference else 0
