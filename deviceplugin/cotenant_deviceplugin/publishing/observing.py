"""Asks the hardware what it does and whose processes are on it. Says what it heard, and nothing of its own."""

from cotenant_api import errors
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.publishing import status


async def machine(gpus: hardware.Hardware, owners: hardware.ProcessOwners) -> status.Machine:
    """Return what the hardware says now; its silence is a fault in words, not an error."""
    try:
        driver, devices, usage = await gpus.driver(), await gpus.devices(), await gpus.usage()
    except errors.TemporaryError as error:
        return status.Machine(simulated=gpus.simulated, fault=str(error))
    pids = (process.pid for each in usage.values() for process in each.processes)
    found = {pid: owner for pid in pids if (owner := owners.pod_of(pid)) is not None}
    return status.Machine(simulated=gpus.simulated, driver=driver, devices=devices, usage=usage, owners=found)
