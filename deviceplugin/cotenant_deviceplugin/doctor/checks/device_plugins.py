"""Which other device plugins serve kubelet here. Pure."""

from collections.abc import Iterator

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Machine
from cotenant_deviceplugin.kubelet import paths


def examine(machine: Machine) -> Iterator[findings.Finding]:
    """Sockets beside kubelet's."""
    where = str(paths.plugins(paths.KUBELET_DIR))
    if machine.plugins is None:
        remedy = "run it on the node, or in its cotenant-node-agent pod"
        yield findings.warning(where, "is not seen from here", remedy)
        return
    foreign = [name for name in machine.plugins if name.startswith("nvidia")]
    if foreign:
        what = f"NVIDIA's device plugin has sockets here: {', '.join(foreign)}"
        remedy = (
            "cotenant doctor has the command that hands the node over; a socket may be left of a plugin that is gone"
        )
        yield findings.warning(where, what, remedy)
    if paths.ENDPOINT in machine.plugins:
        yield findings.ok(where, f"{paths.ENDPOINT} is there")
    else:
        yield findings.warning(
            where, f"there is no {paths.ENDPOINT}: the node agent serves nobody", "is its pod running?"
        )
