"""How the control daemon of a GPU is started, and what is known of one that ends at once."""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import layout, output

ARGUMENTS: Final = ("-f", "-multiuser-server")
"""In the foreground; one server for the users of all containers, or another user's clients would wait for ever:
https://docs.nvidia.com/deploy/mps/latest/troubleshooting.html, "User ID mismatch without multi-user mode"."""
_TRAVERSABLE: Final = 0o755
NO_LIBRARY, NO_DEVICE = 244, 100
"""Exit statuses of a daemon of driver 580 that says nothing: it finds no libcuda, or CUDA has no GPU (CUDA's error)."""


def prepare(root: Path, gpu: GPUUID) -> None:
    """Make folders that every user can traverse, and a pipe directory without what an earlier daemon left.

    The directory itself stays: running containers have it mounted, and must find the new daemon there. Raises OSError.
    """
    pipe, log = layout.pipe(root, gpu), layout.log(root, gpu)
    for directory in (root, pipe.parent, pipe, log):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(_TRAVERSABLE)
    for stale in pipe.iterdir():
        if stale.is_dir() and not stale.is_symlink():
            shutil.rmtree(stale)
        else:
            stale.unlink()


async def start(
    root: Path, gpu: GPUUID, *, program: Sequence[str], environment: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """Start a control daemon of one GPU, in a session of its own. Raises OSError."""
    said = output.opened(layout.output(root, gpu))
    try:
        return await asyncio.create_subprocess_exec(
            *program,
            *ARGUMENTS,
            env={
                **environment,
                layout.PIPE_DIRECTORY: str(layout.pipe(root, gpu)),
                layout.LOG_DIRECTORY: str(layout.log(root, gpu)),
                "CUDA_VISIBLE_DEVICES": gpu,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,  # a signal for this process is not one for its daemons
        )
    finally:
        os.close(said)


def why_ended(status: int) -> str:
    """Return what is known of a daemon's exit status beside itself: where to look. Pure."""
    if status == NO_LIBRARY:
        return ": it finds no libcuda.so.1; look whether the container has the driver's libraries (RuntimeClass nvidia)"
    if status == NO_DEVICE:
        return ": CUDA finds no GPU; look at `nvidia-smi` and at the container's devices (RuntimeClass nvidia)"
    return ""
