"""Whether each GPU has an MPS control daemon that answers, with a server that is ACTIVE. Pure."""

from collections.abc import Iterator

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Machine

_PODS = "kubectl -n cotenant-system get pods -l app.kubernetes.io/name=cotenant-mps -o wide"


def examine(machine: Machine) -> Iterator[findings.Finding]:
    """Each daemon that is not well, and one finding for all that are."""
    if machine.devices and not machine.daemons:
        what = f"there is no pipe of an MPS daemon in {machine.mps_root}: nothing is shared here"
        yield findings.warning("MPS", what, f"is the pod of cotenant-mps running here, and not mode Observe? {_PODS}")
    active = 0
    for device in machine.devices:
        daemon = machine.daemons.get(device.uuid)
        if daemon is None:
            continue
        where = f"GPU {device.index} ({daemon.pipe})"
        if daemon.fault is not None:
            yield findings.error(where, daemon.fault, f"its pod runs the daemon: {_PODS}")
        elif daemon.status is None:
            what = (
                "its control daemon has no server: a GPU that is not shared now, or a server that the agent starts yet"
            )
            yield findings.ok(where, what)
        elif daemon.status != "ACTIVE":
            what = f"its server is {daemon.status}, with {daemon.clients} clients"
            yield findings.error(
                where, what, "the node agent ends clients of a faulty server: see its log, and output.log"
            )
        else:
            active += 1
    if active:
        yield findings.ok("MPS", f"{active} servers are ACTIVE")
