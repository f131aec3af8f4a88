"""What NVML's answers mean in our words: names, modes, SM counts. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant_api.names import GPUModel
from cotenant_deviceplugin.gpus import hardware

MIB = 2**20

COMPUTE_MODES = {
    0: hardware.ComputeMode.DEFAULT,
    2: hardware.ComputeMode.PROHIBITED,
    3: hardware.ComputeMode.EXCLUSIVE_PROCESS,
}
"""`nvmlComputeMode_t`; 1, exclusive thread, has been removed from CUDA."""

RECOVERY_ACTIONS = dict(enumerate(action for action in hardware.RecoveryAction if action != "UNKNOWN"))
"""`nvmlDeviceGpuRecoveryAction_t`, whose values are in the enumeration's order."""

_CORES_PER_SM = {
    (5, 0): 128, (5, 2): 128, (5, 3): 128, (6, 0): 64, (6, 1): 128, (6, 2): 128, (7, 0): 64, (7, 2): 64, (7, 5): 64,
    (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (10, 1): 128, (10, 3): 128,
    (11, 0): 128, (12, 0): 128, (12, 1): 128,
}  # fmt: skip


@dataclass(frozen=True)
class Held:
    """One entry of a list of processes; `used_bytes` is None where the driver does not tell."""

    pid: int
    used_bytes: int | None


def model(product_name: str) -> GPUModel:
    """As gpu-feature-discovery labels it (`nvidia.com/gpu.product`): blanks become hyphens, nothing else changes.

    Source: `productLabel` in internal/lm/resource.go of NVIDIA/k8s-device-plugin. The suffix `-SHARED`, which it adds
    under its own sharing, is no part of a model.
    """
    return GPUModel(product_name.replace(" ", "-"))


def sm_count(cores: int | None, capability: tuple[int, int]) -> int:
    """Return how many SMs a GPU has; 0 where it cannot be told.

    NVML has no such query for a whole GPU: `nvmlDeviceGetAttributes` serves MIG devices alone. It has the number of
    CUDA cores, and the FP32 lanes of an SM follow from the compute capability (CUDA C++ Programming Guide; the
    CUDA samples' `_ConvertSMVer2Cores`).
    """
    per_sm = _CORES_PER_SM.get(capability)
    return 0 if cores is None or per_sm is None or cores % per_sm else cores // per_sm


def compute_mode(number: int) -> hardware.ComputeMode | None:
    """None: a mode that CUDA does not have any more, or not yet."""
    return COMPUTE_MODES.get(number)


def recovery_action(number: int) -> hardware.RecoveryAction:
    """Return what the driver asks for."""
    return RECOVERY_ACTIONS.get(number, hardware.RecoveryAction.UNKNOWN)


def cuda_version(number: int) -> str:
    """`13000` is 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


def processes(*lists: Iterable[Held]) -> tuple[hardware.Process, ...]:
    """Return the processes of several lists, each once, by PID; with different figures, the larger one.

    NVML lists a process with a compute context and a client of MPS separately, and one may be both (nvidia-smi's
    type M+C). What is used is all that the process holds, so that figures do not add up.
    """
    held: dict[int, int] = {}
    for each in (one for entries in lists for one in entries):
        held[each.pid] = max(held.get(each.pid, 0), each.used_bytes or 0)
    return tuple(hardware.Process(pid=pid, memory_mib=_mib(held[pid])) for pid in sorted(held))


def memory_mib(size_bytes: int) -> int:
    """Whole MiB of a GPU's memory: never more than there is."""
    return size_bytes // MIB


def versions(driver_version: str, cuda_number: int) -> hardware.Driver:
    """Both versions."""
    return hardware.Driver(driver_version=driver_version, cuda_version=cuda_version(cuda_number))


def _mib(size_bytes: int) -> int:
    """Return MiB, rounded up: a process that holds anything holds something."""
    return -(-size_bytes // MIB)
