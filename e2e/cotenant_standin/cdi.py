"""The CDI specification of the stand-in's GPUs: what `nvidia-ctk cdi generate` writes for real ones.

Kind `nvidia.com/gpu`; each GPU is a device named by its index and one named by its UUID (`--device-name-strategy`),
and there is `all`. The device nodes are /dev/null under NVIDIA's names, so that any Linux has them; instead of the
driver's libraries the folder is mounted, whose socket is the stand-in's driver. No hooks: they are NVIDIA's programs.
Format: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md (0.5.0 brought `hostPath`).
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cotenant_standin import state

KIND = "nvidia.com/gpu"
VERSION = "0.5.0"
FILE = "nvidia.json"
CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


def specification(machine: state.State) -> Mapping[str, Any]:
    """Return the whole specification."""
    gpus = machine.gpus()
    every = [
        *(_device(str(gpu.index), [gpu.index]) for gpu in gpus),
        *(_device(gpu.uuid, [gpu.index]) for gpu in gpus),
        _device("all", [gpu.index for gpu in gpus]),
    ]
    return {"cdiVersion": VERSION, "kind": KIND, "devices": every, "containerEdits": _common(machine)}


def write(machine: state.State, directory: Path) -> Path:
    """Put it into a folder that a runtime reads (/etc/cdi, /var/run/cdi)."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE
    state.write(path, json.dumps(specification(machine), indent=1))
    return path


def _device(name: str, indexes: Iterable[int]) -> Mapping[str, Any]:
    nodes = [_node(f"/dev/nvidia{index}") for index in indexes]
    return {"name": name, "containerEdits": {"deviceNodes": nodes}}


def _common(machine: state.State) -> Mapping[str, Any]:
    """Return what every container with a GPU gets. Connecting to a socket is no write to its file system."""
    return {
        # NVIDIA's toolkit sets it so that its own runtime injects nothing beside CDI.
        "env": ["NVIDIA_VISIBLE_DEVICES=void", f"{state.FOLDER_VARIABLE}={state.DEFAULT_FOLDER}"],
        "deviceNodes": [_node(path) for path in CONTROL_NODES],
        "mounts": [
            {
                "hostPath": str(machine.root.absolute()),
                "containerPath": str(state.DEFAULT_FOLDER),
                "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
            }
        ],
    }


def _node(path: str) -> Mapping[str, Any]:
    return {"path": path, "hostPath": "/dev/null", "permissions": "rw"}
