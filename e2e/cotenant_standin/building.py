"""Builds the stand-in's C parts with gcc into a cache, once for each content. Nothing that is built is ever committed.

A cache: `${XDG_CACHE_HOME:-~/.cache}/cotenant/standin`, one folder for each set of sources, flags and compiler.
"""

import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

NATIVE = Path(__file__).parent / "native"
LIBRARY = "libnvidia-ml.so.1"
"""The name that nvidia-ml-py asks the dynamic linker for."""
LIBRARY_SOURCES = ("nvml.c", "nvml_events.c", "nvml_folder.c", "nvml_processes.c", "nvml_programs.c")
CUDA = "libcuda.so.1"

DISK = "disk.so"
"""To be loaded by LD_PRELOAD."""
DISK_HANGS = "hangs"
"""The file in a folder while whose `fsync` does not return."""

_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation")


def cache() -> Path:
    """Where built files are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cotenant" / "standin"


def nvml() -> Path:
    """Return the stand-in for NVIDIA's management library; its folder may stand in LD_LIBRARY_PATH."""
    flags = ("-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}", "-pthread")
    return build(LIBRARY, LIBRARY_SOURCES, flags=flags)


def cuda() -> Path:
    """Return the stand-in for CUDA's driver library; its folder may stand in LD_LIBRARY_PATH."""
    return _cuda("cuda.c")


def cuda_experiments() -> Path:
    """Another for the calls of the experiments with MPS, which computes for a modelled time and can fault."""
    return _cuda("cuda_experiments.c")


def cuda_client() -> Path:
    """Return the stand-in's CUDA program, for any container."""
    return build("cuda_client", ("cuda_client.c", "cuda_protocol.c"), flags=("-static",))


def disk() -> Path:
    """Return a disk that can be told to hang: see `native/disk.c`."""
    return build(DISK, ("disk.c",), flags=("-shared", "-fPIC"))


def build(name: str, sources: Sequence[str], *, flags: Sequence[str] = ()) -> Path:
    """Compile sources of `native/` into one file of the cache, unless it is there.

    Args:
        name: of the file.
        sources: their names in `native/`; every header there counts as read by them.
        flags: beside the common ones (`-static` for a program that runs in any container).

    Raises:
        RuntimeError: no gcc, or it refused; the message says what to do.
    """
    files = [NATIVE / source for source in sources]
    built = cache() / _digest(name, files, flags) / name
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            made = Path(folder) / name
            _run(["gcc", *_FLAGS, "-o", str(made), *map(str, files), *flags])
            made.replace(built)  # whole or not at all, whoever else builds it now
    return built


def _cuda(source: str) -> Path:
    return build(CUDA, (source, "cuda_protocol.c"), flags=("-shared", "-fPIC", f"-Wl,-soname,{CUDA}"))


def _digest(name: str, files: Sequence[Path], flags: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in (name, *_FLAGS, *flags, platform.machine(), *platform.libc_ver()):
        digest.update(text.encode() + b"\0")
    for file in (*files, *sorted(NATIVE.glob("*.h"))):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _run(command: Sequence[str]) -> None:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        remedy = "install it (apt-get install gcc libc6-dev, or scripts/install-node-packages)"
        raise RuntimeError(f"the stand-in GPU is built with gcc: {remedy}") from error
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ran.stderr[-4000:]}")
