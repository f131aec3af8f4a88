"""Jobs that share a GPU, as a model of speeds sees them, and what such a model answers.

The model is a `Speeds`; this module knows none. `speeds` adapts the predictor's.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cotenant_api import pod, prediction
from cotenant_extender.packing import needs, view

Array: TypeAlias = NDArray[Any]


class Job(NamedTuple):
    """A job on one GPU.

    Attributes:
        predicted: its prediction for the GPU's model; None: nothing is known of it.
        gpu_memory_mib: the GPU's whole memory.
        threads: percentage of the SMs that it may use.
        priority: client priority: 0 normal, 1 below.
    """

    predicted: prediction.GPUPrediction | None
    gpu_memory_mib: int
    threads: int
    priority: int
    workload_type: pod.WorkloadType


class Joining(NamedTuple):
    """A job about to join others on one GPU.

    Attributes:
        newcomer: with the booked share as its thread percentage.
    """

    newcomer: Job
    neighbours: tuple[Job, ...]


class Speeds(Protocol):
    """How fast jobs run that share a GPU through MPS."""

    def together(self, groups: Sequence[Sequence[Job]]) -> Array:
        """Normalised speeds: of each job's speed alone with all threads, 0..1.

        A job without prediction counts as one that runs at full speed, and for that keeps busy all the threads that it
        may use, and as large a part of the memory bandwidth.

        Args:
            groups: the jobs of one GPU each.

        Returns:
            Shape (n_groups, most jobs of any group), in the order of the jobs; NaN where a group has fewer.
        """
        ...


def of_tenant(tenant: view.Tenant, gpu_memory_mib: int) -> Job:
    """Return a tenant of a GPU of which this is the whole memory."""
    return Job(
        predicted=tenant.predicted,
        gpu_memory_mib=gpu_memory_mib,
        threads=tenant.thread_percentage,
        priority=tenant.client_priority,
        workload_type=tenant.workload_type,
    )


def needed(job: Job) -> Array:
    """Return what a job needs of SM time and of memory bandwidth, 1: all; shape (2,)."""
    if job.predicted is None:
        return np.array([job.threads, job.threads]) / 100
    return np.array([job.predicted.sm_activity.q50, job.predicted.dram_activity.q50]) / 100


def joining(
    asked: pod.Demand,
    predicted: prediction.GPUPrediction | None,
    neighbours: tuple[Job, ...],
    *,
    share: int,
    gpu_memory_mib: int,
) -> Joining:
    """Return a pod that is booked for `share` hundredths of a GPU, beside those who run there."""
    newcomer = Job(
        predicted=predicted,
        gpu_memory_mib=gpu_memory_mib,
        threads=share,
        priority=needs.client_priority(asked, (job.workload_type for job in neighbours)),
        workload_type=asked.workload_type,
    )
    return Joining(newcomer, neighbours)
