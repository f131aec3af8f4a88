"""The stand-in's `nvidia-container-runtime`: runc, and before a container is made, what NVIDIA's toolkit would put in.

As https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/ says, a container's environment asks:
NVIDIA_VISIBLE_DEVICES for devices, NVIDIA_DRIVER_CAPABILITIES for parts of the driver (`compute`: CUDA and MPS;
`utility`: NVML). Here devices are /dev/null under NVIDIA's names, and the parts are the stand-in's own, so the image
that is run is the one that is shipped. It needs Python at /usr/bin/python3 for the stand-in of MPS.
"""

import json
import os
import platform
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant_standin import cdi, mps_control, state

PROGRAM = "nvidia-container-runtime"
PARTS = "parts.json"
"""Beside the program: path in a container -> capability that it belongs to and file of this machine."""
SOURCE = "/usr/share/cotenant-standin"
"""Where a container finds this package."""
_NOTHING = {"", "void", "none"}


@dataclass(frozen=True)
class Part:
    """A file or folder of the driver: what asks for it, where it lies here and in a container."""

    capability: str
    here: str
    there: str


def install(folder: Path, *, nvml: Path, cuda: Path) -> Path:
    """Write the program, and what it puts into containers, into a folder; its path. `nvml`, `cuda`: the libraries."""
    package = Path(__file__).resolve().parent
    inside = folder / "in-container"
    inside.mkdir(parents=True, exist_ok=True)
    control = mps_control.install(inside, interpreter="/usr/bin/python3", source=SOURCE)
    libraries = f"/usr/lib/{platform.machine()}-linux-gnu"
    parts = [
        Part("utility", str(nvml), f"{libraries}/{nvml.name}"),
        Part("compute", str(cuda), f"{libraries}/{cuda.name}"),
        Part("compute", str(control), f"/usr/bin/{control.name}"),
        Part("compute", str(package), f"{SOURCE}/{package.name}"),
    ]
    (folder / PARTS).write_text(json.dumps([vars(part) for part in parts]))
    path = folder / PROGRAM
    path.write_text(
        f"#!{sys.executable} -IS\n"
        "# A stand-in for tests: no GPU and no driver of NVIDIA is involved.\n"
        "import sys\n"
        f"sys.path.insert(0, {str(package.parent)!r})\n"
        "from cotenant_standin import container_runtime\n"
        f"container_runtime.main({str(folder)!r}, sys.argv[1:])\n"
    )
    path.chmod(0o755)
    return path


def main(folder: str, arguments: Sequence[str]) -> None:
    """Add to the bundle of a container that is to be created, then become runc."""
    if "create" in arguments:
        bundle = Path(_option(arguments, "--bundle") or _option(arguments, "-b") or ".")
        parts = [Part(**each) for each in json.loads(Path(folder, PARTS).read_text())]
        specification = json.loads((bundle / "config.json").read_text())
        changed = edited(specification, state.State(state.DEFAULT_FOLDER), parts)
        (bundle / "config.json").write_text(json.dumps(changed))
    runc = shutil.which("runc") or "/usr/sbin/runc"
    os.execv(runc, [runc, *arguments])  # noqa: S606 - as NVIDIA's becomes runc


def edited(specification: dict[str, Any], machine: state.State, parts: Sequence[Part]) -> dict[str, Any]:
    """Return an OCI runtime specification with what its environment asks for."""
    process = specification["process"]
    asked = dict(pair.split("=", 1) for pair in process.get("env") or () if "=" in pair)
    if asked.get("NVIDIA_VISIBLE_DEVICES", "") in _NOTHING:
        return specification
    capabilities = set(asked.get("NVIDIA_DRIVER_CAPABILITIES", "utility").split(","))
    wanted = [part for part in parts if capabilities & {part.capability, "all"}]
    mounts = [_mount(part.here, part.there, "ro") for part in wanted]
    # The driver's state: what a device file is to a real one, so it can be written.
    mounts.append(_mount(str(machine.root), str(state.DEFAULT_FOLDER), "rw"))
    nodes = [f"/dev/nvidia{gpu.index}" for gpu in machine.gpus()] + list(cdi.CONTROL_NODES)
    linux = specification["linux"]
    return specification | {
        "process": process | {"env": [*process["env"], f"{state.FOLDER_VARIABLE}={state.DEFAULT_FOLDER}"]},
        "mounts": [*specification["mounts"], *mounts],
        "linux": linux | {"devices": [*(linux.get("devices") or ()), *map(_device, nodes)]},
    }


def _mount(here: str, there: str, mode: str) -> dict[str, Any]:
    return {"source": here, "destination": there, "type": "bind", "options": ["rbind", "rprivate", "nosuid", mode]}


def _device(path: str) -> dict[str, Any]:
    null = Path("/dev/null").stat()
    numbers = {"major": os.major(null.st_rdev), "minor": os.minor(null.st_rdev)}
    return {"path": path, "type": "c", "fileMode": stat.S_IMODE(null.st_mode), **numbers}


def _option(arguments: Sequence[str], name: str) -> str | None:
    for index, word in enumerate(arguments):
        if word == name:
            return arguments[index + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
