"""A driver's files below a folder, as the GPU Operator's driver container leaves them in /run/nvidia/driver.

The libraries are the stand-in's, under the names that NVIDIA's installer gives them; device nodes are those of
/dev/null under NVIDIA's names. Beside it, NVIDIA's own toolkit as the GPU Operator installs it.
"""

import os
import shutil
import stat
import sys
from pathlib import Path

from cotenant_e2e import binaries, progress, versions
from cotenant_standin import building

LIBRARIES = "usr/lib/x86_64-linux-gnu"
PROGRAMS = ("nvidia-smi", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")


def programs() -> dict[str, Path]:
    """NVIDIA's programs, built from their Go modules where the machine has none."""
    shown = progress.PlainProgress(sys.stderr)
    return binaries.find(environment=os.environ, progress=shown, programs=versions.NVIDIA_PROGRAMS)


def make(root: Path, *, version: str, gpus: int, nodes: bool = True) -> Path:
    """Put a driver of this version below a folder. `nodes`: with a /dev of its own."""
    folder = root / LIBRARIES
    folder.mkdir(parents=True, exist_ok=True)
    for name, built in (("libnvidia-ml", building.nvml()), ("libcuda", building.cuda())):
        for old in folder.glob(f"{name}.so*"):
            old.unlink()
        shutil.copy(built, folder / f"{name}.so.{version}")
        (folder / f"{name}.so.1").symlink_to(f"{name}.so.{version}")
    (root / "usr/bin").mkdir(exist_ok=True)
    for name in PROGRAMS:
        program = root / "usr/bin" / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    if nodes:
        (root / "dev").mkdir(exist_ok=True)
        null = Path("/dev/null").stat().st_rdev
        for name in (*NODES, *(f"nvidia{index}" for index in range(gpus))):
            if not (root / "dev" / name).exists():
                os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, null)
    return root


def install_toolkit(folder: Path) -> Path:
    """Put nvidia-ctk, behind a shell script, and nvidia-cdi-hook into a folder, as the GPU Operator's toolkit does."""
    found = programs()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(found["nvidia-cdi-hook"], folder / "nvidia-cdi-hook")
    shutil.copy(found["nvidia-ctk"], folder / "nvidia-ctk.real")
    script = folder / "nvidia-ctk"
    script.write_text(f'#! /bin/sh\nPATH={folder}:$PATH \\\n\t{folder}/nvidia-ctk.real \\\n\t\t"$@"\n')
    script.chmod(0o755)
    return folder
