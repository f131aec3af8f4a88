"""Whether the container runtime resolves CDI names, and sends no container through NVIDIA's runtime unasked. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api import findings
from cotenant_deviceplugin.doctor.machine import Configuration, Machine
from cotenant_deviceplugin.publishing import readiness

Object = Mapping[str, Any]

PLUGINS: Final = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
"""containerd's CRI plugin in configuration version 3 (2.0 and later), and in version 2."""
_NVIDIA: Final = "nvidia"


def examine(machine: Machine) -> Iterator[findings.Finding]:
    """Yield the runtime's version and configuration."""
    cri = None if machine.containerd is None else _cri(machine.containerd)
    if machine.container_runtime is None and machine.containerd is None:
        remedy = "run it on the host, or with --root on the host's file system"
        yield findings.warning(
            "container runtime", "neither its version nor its configuration is seen from here", remedy
        )
        return
    if machine.containerd is not None and machine.containerd.fault is not None:
        where = str(machine.containerd.path)
        yield findings.error(
            where, machine.containerd.fault, "containerd config dump shows what containerd makes of it"
        )
    where = "container runtime" if machine.containerd is None else str(machine.containerd.path)
    said = None if cri is None else cri.get("enable_cdi")
    if said is False:
        yield findings.error(
            where, "enable_cdi = false: containers of shares cannot start", "set it to true, restart containerd"
        )
    elif machine.container_runtime is not None:
        fault = readiness.cdi_fault(machine.container_runtime, said_to_have_it=said is True)
        if fault is None:
            yield findings.ok(where, f"{machine.container_runtime} resolves CDI names")
        else:
            yield findings.error(
                where, fault, "see the container toolkit's documentation of CDI; restart containerd then"
            )
    elif said is True:
        yield findings.ok(where, "enable_cdi = true")
    if cri is not None:
        yield from _default(where, cri)


def _default(where: str, cri: Object) -> Iterator[findings.Finding]:
    runtime = str((cri.get("containerd") or {}).get("default_runtime_name") or "")
    if _NVIDIA in runtime:
        what = f"default_runtime_name = {runtime!r}: any pod with NVIDIA_VISIBLE_DEVICES=all gets every GPU"
        remedy = (
            "let runc be the default (nvidia-ctk runtime configure --nvidia-set-as-default=false), restart containerd"
        )
        yield findings.warning(where, what, remedy)


def _cri(found: Configuration) -> Object | None:
    plugins = (found.content or {}).get("plugins") or {}
    return next((plugins[name] for name in PLUGINS if isinstance(plugins.get(name), dict)), None)
