"""Whether there is room in /dev/shm, through which MPS clients and their server talk. Pure."""

from collections.abc import Iterator
from typing import Final

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Machine

_WHERE: Final = "/dev/shm"  # noqa: S108 -- not a temporary file
LEAST_MIB: Final = 64
"""What a container gets by default, and so what MPS has to do with anywhere."""


def examine(machine: Machine) -> Iterator[findings.Finding]:
    """Of this process's /dev/shm."""
    if machine.shm_mib is None:
        yield findings.warning(_WHERE, "there is none here", "mount a tmpfs there")
    elif machine.shm_mib < LEAST_MIB:
        remedy = f"mount -o remount,size={LEAST_MIB}M /dev/shm; of a pod: an emptyDir of medium Memory there"
        yield findings.warning(_WHERE, f"has {machine.shm_mib} MiB", remedy)
    else:
        yield findings.ok(_WHERE, f"has {machine.shm_mib} MiB")
