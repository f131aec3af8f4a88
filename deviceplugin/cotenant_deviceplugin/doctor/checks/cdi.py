"""Whether NVIDIA's CDI specification knows every GPU. Pure."""

from collections.abc import Iterator

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Machine

_REMEDY = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, after each change of the driver"


def examine(machine: Machine) -> Iterator[findings.Finding]:
    """One finding for all GPUs."""
    where = " or ".join(str(folder) for folder in machine.cdi_dirs)
    if machine.specification_fault is not None:
        yield findings.error(where, machine.specification_fault, _REMEDY)
    elif machine.unspecified:
        names = ", ".join(sorted(machine.unspecified))
        yield findings.error(where, f"no specification of kind nvidia.com/gpu knows {names}", _REMEDY)
    elif machine.devices:
        yield findings.ok(where, f"a specification of kind nvidia.com/gpu knows all {len(machine.devices)} GPUs")
