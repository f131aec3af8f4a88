"""How tenants share a GPU: the environment of each process. Pure. Figures of different mechanisms are never pooled."""

from __future__ import annotations

import enum
from collections.abc import Mapping

PIPE_DIRECTORY = "CUDA_MPS_PIPE_DIRECTORY"
LOG_DIRECTORY = "CUDA_MPS_LOG_DIRECTORY"
THREAD_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
MEMORY_LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
CLIENT_PRIORITY = "CUDA_MPS_CLIENT_PRIORITY"
_OWN = (PIPE_DIRECTORY, LOG_DIRECTORY, THREAD_PERCENTAGE, MEMORY_LIMIT, CLIENT_PRIORITY, "CUDA_VISIBLE_DEVICES")


class Mechanism(enum.StrEnum):
    """As the measurement document names them."""

    ALONE = "Alone"
    MPS = "MPS"
    TIME_SLICING = "TimeSlicing"
    PRIORITY_STREAMS = "PriorityStreams"


def client_environment(
    *, pipe_directory: str, thread_percentage: int | None, memory_limit_mib: int | None, client_priority: int
) -> dict[str, str]:
    """Variables of an MPS client. The control daemon sees one GPU, which is ordinal 0 to its clients."""
    found = {
        PIPE_DIRECTORY: pipe_directory,
        "CUDA_VISIBLE_DEVICES": "0",
        CLIENT_PRIORITY: str(client_priority),
    }
    if thread_percentage is not None:
        found[THREAD_PERCENTAGE] = str(thread_percentage)
    if memory_limit_mib is not None:
        found[MEMORY_LIMIT] = f"0={memory_limit_mib}M"
    return found


def plain_environment(*, gpu_uuid: str, empty_directory: str) -> dict[str, str]:
    """Variables of a process without MPS: an empty pipe directory keeps it from any daemon at the default place."""
    return {PIPE_DIRECTORY: empty_directory, "CUDA_VISIBLE_DEVICES": gpu_uuid}


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment without what decides here."""
    return {name: value for name, value in environment.items() if name not in _OWN}
