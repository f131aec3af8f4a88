"""The thread percentage of a pod on one GPU: `threadPartition`. MPS fixes it at process start; it is chosen once.

100 where the GPU is booked whole, or with `None`; with `Proportional` the booked share; with `Demand` the predicted
thread demand, never below the booked share; without prediction the booked share.
"""

from cotenant_api import packingpolicy, pod
from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import needs, policies, view


def percentage(demand: pod.Demand, gpu: view.GPU, share: int, policy: policies.InForce) -> int:
    """Percentage of the SMs that the pod's kernels may use."""
    if share >= HUNDREDTHS:
        return 100
    predicted = needs.predicted_on(demand, gpu.model)
    match policy.packing(gpu.model).thread_partition:
        case packingpolicy.ThreadPartition.NONE:
            return 100
        case packingpolicy.ThreadPartition.PROPORTIONAL:
            return share
        case packingpolicy.ThreadPartition.DEMAND:
            return share if predicted is None else max(share, predicted.thread_percentage)
