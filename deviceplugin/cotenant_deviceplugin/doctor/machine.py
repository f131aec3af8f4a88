"""What was read of a machine. Values alone; None always means: not seen from here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus import hardware


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A program's configuration file.

    Attributes:
        content: None: it cannot be read, `fault` says why.
    """

    path: Path
    content: Mapping[str, Any] | None
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """The MPS control daemon of one GPU.

    Attributes:
        pipe: its directory.
        status: of its server, in its own word; None: there is no server, or `fault` says why nothing is known.
        clients: of that server.
    """

    pipe: Path
    status: str | None = None
    clients: int = 0
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine with GPUs.

    Attributes:
        driver_fault: why NVML answers nothing.
        specification_fault: what was looked for, where no CDI specification gives each GPU by itself.
        specification_made: whether there is none, and nvidia-ctk makes one.
        cdi_dirs: where specifications were looked for.
        daemons: by GPU; of those for which there is a pipe below `mps_root`.
        container_runtime: `containerd://2.3.7`.
        containerd, toolkit: their configurations.
        shm_mib: of /dev/shm.
        plugins: sockets of device plugins beside kubelet's own.
    """

    driver: hardware.Driver | None = None
    driver_fault: str | None = None
    devices: tuple[hardware.Device, ...] = ()
    readings: Mapping[GPUUID, hardware.Readings] = field(default_factory=dict)
    cdi_dirs: tuple[Path, ...] = ()
    specification_fault: str | None = None
    specification_made: bool = False
    daemons: Mapping[GPUUID, Daemon] = field(default_factory=dict)
    mps_root: Path | None = None
    container_runtime: str | None = None
    containerd: Configuration | None = None
    toolkit: Configuration | None = None
    shm_mib: int | None = None
    plugins: tuple[str, ...] | None = None
