"""Whether a process that avoids MPS is kept off the GPUs: by the compute mode EXCLUSIVE_PROCESS. Pure."""

from collections.abc import Iterator

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Machine
from cotenant_deviceplugin.gpus import hardware


def examine(machine: Machine) -> Iterator[findings.Finding]:
    """Each GPU that is open to every process, or to none; only where MPS serves it."""
    closed = 0
    for device in machine.devices:
        readings, daemon = machine.readings.get(device.uuid), machine.daemons.get(device.uuid)
        if readings is None or readings.fault is not None or device.mig:
            continue
        where = f"GPU {device.index} ({device.uuid})"
        if readings.compute_mode is hardware.ComputeMode.PROHIBITED:
            remedy = f"nvidia-smi -i {device.index} -c EXCLUSIVE_PROCESS"
            yield findings.error(where, "compute mode PROHIBITED: no process may use it", remedy)
        elif readings.compute_mode is hardware.ComputeMode.DEFAULT and daemon is not None and daemon.status is not None:
            what = "compute mode DEFAULT: a process that does not reach the MPS daemon runs beside it, without limits"
            remedy = f"give the node agent --manage-compute-mode, or nvidia-smi -i {device.index} -c EXCLUSIVE_PROCESS"
            yield findings.warning(where, what, remedy)
        else:
            closed += 1
    if closed:
        yield findings.ok("NVML", f"the compute mode of {closed} GPUs is as it should be")
