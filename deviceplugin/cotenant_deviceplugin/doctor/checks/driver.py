"""Whether NVIDIA's driver answers, which GPUs it has, and whether any of them wants something. Pure."""

from collections.abc import Iterator

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Machine
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.mps.versions import LEAST_DRIVER, unfit


def examine(machine: Machine) -> Iterator[findings.Finding]:
    """Yield the driver, and each GPU that is not well."""
    if machine.driver is None:
        remedy = "nvidia-smi on the host says more; in a pod, its RuntimeClass must be the toolkit's (nvidia)"
        yield findings.error("NVML", machine.driver_fault or "does not answer", remedy)
        return
    versions = f"driver {machine.driver.driver_version}, CUDA {machine.driver.cuda_version}"
    old = unfit(machine.driver.driver_version)
    if old is not None:
        yield findings.error(
            "NVML", old, f"install driver {LEAST_DRIVER} or newer; until then the agent gives no shares"
        )
    if machine.devices:
        yield findings.ok("NVML", f"{versions}, {len(machine.devices)} GPUs")
    else:
        yield findings.error(
            "NVML", f"{versions}, and no GPU", "lspci -d 10de: shows what the machine has; dmesg why not"
        )
    for device in machine.devices:
        yield from _of_gpu(device, machine.readings.get(device.uuid))


def _of_gpu(device: hardware.Device, readings: hardware.Readings | None) -> Iterator[findings.Finding]:
    where = f"GPU {device.index} ({device.uuid})"
    if device.mig:
        remedy = "leave it as it is, or leave MIG mode: nvidia-smi -mig 0, then a reset of the GPU"
        yield findings.warning(where, "is in MIG mode and gives no shares", remedy)
    if readings is None:
        return
    if readings.fault is not None:
        yield findings.error(where, readings.fault, f"nvidia-smi -q -i {device.index}; then reset the GPU")
    elif readings.recovery_action not in (None, hardware.RecoveryAction.NONE):
        remedy = f"cotenant node drain NODE, then what the driver asks for: nvidia-smi -q -i {device.index}"
        yield findings.error(where, f"the driver asks for {readings.recovery_action}", remedy)
    elif readings.remap_failed:
        yield findings.error(where, "a row of its memory cannot be replaced", "replace the GPU")
    elif readings.remap_pending:
        remedy = f"cotenant node drain NODE, then nvidia-smi --gpu-reset -i {device.index}"
        yield findings.warning(where, "a row of its memory is replaced at the next reset", remedy)
