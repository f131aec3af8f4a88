"""Whether a CDI specification of NVIDIA's gives each GPU by itself. Pure."""

from collections.abc import Iterator

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Machine

_REMEDY = (
    "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, after each change of the driver; or let the node agent "
    "make one: it needs nvidia-ctk and the driver's folder (node.driver of the chart)"
)


def examine(machine: Machine) -> Iterator[findings.Finding]:
    """One finding for all GPUs."""
    where = " or ".join(str(folder) for folder in machine.cdi_dirs)
    shared = [device for device in machine.devices if not device.mig]
    if machine.specification_fault is not None:
        yield findings.error(where, machine.specification_fault, _REMEDY)
    elif shared:
        source = "nvidia-ctk makes one that" if machine.specification_made else "a specification"
        yield findings.ok(where, f"{source} knows all {len(shared)} GPUs")
