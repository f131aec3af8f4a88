"""Reads a machine once. Judges nothing, changes nothing; what is not there is told as a value."""

import asyncio
import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import bases, toolkit
from cotenant_deviceplugin.binding.grants import Numbers
from cotenant_deviceplugin.doctor.machine import Configuration, Daemon, Machine
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.kubelet import paths
from cotenant_deviceplugin.mps import control, layout

CONTAINERD: Final = ("etc/containerd/config.toml",)
TOOLKIT: Final = (
    "etc/nvidia-container-runtime/config.toml",
    "usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
)
"""The package's, and that of NVIDIA's GPU Operator."""
_RUNTIMES: Final = {"containerd": ("containerd", "--version"), "cri-o": ("crio", "--version")}
_VERSION: Final = re.compile(r"\bv?(\d+\.\d+\.\d+\S*)")
_SECONDS: Final = 10.0
_KUBELETS_OWN: Final = ("kubelet.sock", "kubelet_internal_checkpoint")


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things are.

    Attributes:
        root: where the host's file system is seen.
        driver: where driver and toolkit are.
        mps_control: NVIDIA's control program, with whatever stands before it.
    """

    root: Path = Path("/")
    kubelet_dir: Path = paths.KUBELET_DIR
    cdi_dirs: tuple[Path, ...] = bases.FOLDERS
    driver: toolkit.Places = field(default_factory=toolkit.Places)
    mps_root: Path = layout.DEFAULT_ROOT
    mps_control: Sequence[str] = layout.PROGRAM
    shm: Path = Path("/dev/shm")  # noqa: S108 -- not a temporary file


async def read(gpus: hardware.ManagedHardware, places: Places) -> Machine:
    """Everything that can be seen from here."""
    driver, devices, readings, fault = await _driver(gpus)
    shared = [device for device in devices if not device.mig]
    look = await _look(driver, shared, places)
    return Machine(
        driver=driver,
        driver_fault=fault,
        devices=devices,
        readings=readings,
        cdi_dirs=places.cdi_dirs,
        specification_fault=look.reason,
        specification_made=look.made,
        daemons={device.uuid: found for device in shared if (found := await _daemon(device.uuid, places)) is not None},
        mps_root=places.mps_root,
        container_runtime=await _runtime(places.root),
        containerd=configuration(places.root, CONTAINERD),
        toolkit=configuration(places.root, TOOLKIT),
        shm_mib=_shm_mib(places.shm),
        plugins=_plugins(paths.plugins(places.kubelet_dir)),
    )


_Driver = tuple[hardware.Driver | None, tuple[hardware.Device, ...], Mapping[GPUUID, hardware.Readings], str | None]


async def _driver(gpus: hardware.ManagedHardware) -> _Driver:
    try:
        return await gpus.driver(), await gpus.devices(), await gpus.readings(), None
    except errors.TemporaryError as error:
        return None, (), {}, str(error)


async def _look(driver: hardware.Driver | None, devices: Sequence[hardware.Device], places: Places) -> bases.Look:
    if driver is None:
        return bases.Look()
    numbers = {device.uuid: Numbers.of(device) for device in devices}
    maker = toolkit.Toolkit(places.driver)
    return await bases.Bases(places.cdi_dirs, maker=maker).look(numbers, driver.driver_version)


async def _daemon(gpu: GPUUID, places: Places) -> Daemon | None:
    """None: nobody has made a pipe for the GPU."""
    pipe = layout.pipe(places.mps_root, gpu)
    if not pipe.is_dir():
        return None
    asked = control.Control(pipe, program=places.mps_control)
    try:
        servers = await asked.servers()
        if not servers:
            return Daemon(pipe=pipe)
        status, clients = await asked.status(servers[0]), await asked.clients(servers[0])
    except errors.TemporaryError as error:
        return Daemon(pipe=pipe, fault=str(error))
    return Daemon(pipe=pipe, status=status, clients=len(clients))


async def _runtime(root: Path) -> str | None:
    """Name and version of the runtime whose program is here; of another root its program cannot be run."""
    for name, (program, *arguments) in _RUNTIMES.items():
        path = shutil.which(program) if root == Path("/") else None
        if path is None:
            continue
        process = await asyncio.create_subprocess_exec(
            path, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            continue
        found = _VERSION.search(output.decode(errors="replace"))
        if found:
            return f"{name}://{found[1]}"
    return None


def configuration(root: Path, places: Sequence[str]) -> Configuration | None:
    """Return the first of these files below a folder that is there, with what it imports; None: there is none."""
    path = next((root / place for place in places if (root / place).is_file()), None)
    if path is None:
        return None
    try:
        content = _toml(path)
        for pattern in content.get("imports") or ():
            for more in sorted(root.glob(str(pattern).lstrip("/"))):
                content = _merged(content, _toml(more))
    except (OSError, ValueError) as error:
        return Configuration(path=path, content=None, fault=f"cannot be read: {error}")
    return Configuration(path=path, content=content)


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Tables into one another; of anything else the later one."""
    both = {key: _merged(old[key], new[key]) for key in old.keys() & new.keys() if _tables(old[key], new[key])}
    return {**old, **new, **both}


def _tables(one: object, other: object) -> bool:
    return isinstance(one, dict) and isinstance(other, dict)


def _shm_mib(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize // 2**20


def _plugins(folder: Path) -> tuple[str, ...] | None:
    try:
        return tuple(sorted(entry.name for entry in folder.iterdir() if entry.name not in _KUBELETS_OWN))
    except OSError:
        return None
