"""Which settings of NVIDIA's container toolkit let a container have all GPUs without asking Kubernetes. Pure.

The toolkit obeys NVIDIA_VISIBLE_DEVICES of every container by default; with the first setting false, only of those with
CAP_SYS_ADMIN. With the second, a mount below /var/run/nvidia-container-devices names devices, too; it is off by default
(config.toml of NVIDIA's container toolkit).
"""

from collections.abc import Iterator
from typing import Final

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Machine

BY_VARIABLE: Final = "accept-nvidia-visible-devices-envvar-when-unprivileged"
BY_MOUNT: Final = "accept-nvidia-visible-devices-as-volume-mounts"


def examine(machine: Machine) -> Iterator[findings.Finding]:
    """Both settings."""
    if machine.toolkit is None:
        remedy = "run it on the host, or with --root on the host's file system"
        yield findings.warning("NVIDIA's container toolkit", "its config.toml is not seen from here", remedy)
        return
    where = str(machine.toolkit.path)
    if machine.toolkit.content is None:
        yield findings.error(where, machine.toolkit.fault or "cannot be read", "nvidia-ctk config writes a new one")
        return
    if machine.toolkit.content.get(BY_VARIABLE, True):
        what = (
            f"{BY_VARIABLE} = true: any pod of RuntimeClass nvidia that sets NVIDIA_VISIBLE_DEVICES=all gets every GPU"
        )
        remedy = (
            f"keep RuntimeClass nvidia from users by an admission policy; or set {BY_VARIABLE} = false, and give "
            "cotenant-mps CAP_SYS_ADMIN, by which the toolkit knows whom it may obey"
        )
        yield findings.warning(where, what, remedy)
    else:
        yield findings.ok(where, f"{BY_VARIABLE} = false")
    if machine.toolkit.content.get(BY_MOUNT, False):
        what = f"{BY_MOUNT} = true: a mount below /var/run/nvidia-container-devices gives any pod every GPU"
        yield findings.warning(where, what, f"set {BY_MOUNT} = false unless NVIDIA's plugin on this node needs it")
    else:
        yield findings.ok(where, f"{BY_MOUNT} = false")
