"""Where the MPS daemon of each GPU has its pipe and its log: `ROOT/UUID/pipe`, `ROOT/UUID/log`. Nothing is made here.

The agent and the MPS daemons are two processes; this is what they agree on. Beside them lie what a GPU's compute mode
was before, `ROOT/UUID/compute-mode`, and, on a node that is given back, `ROOT/given-back`: see `clearing`.
"""

from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_api.names import GPUUID

DEFAULT_ROOT: Final = Path("/run/cotenant/mps")
PROGRAM: Final = ("nvidia-cuda-mps-control",)
PIPE_DIRECTORY: Final = "CUDA_MPS_PIPE_DIRECTORY"
LOG_DIRECTORY: Final = "CUDA_MPS_LOG_DIRECTORY"
MAX_SOCKET_PATH: Final = 107
"""Bytes of a UNIX socket's path (unix(7)); beyond it a control daemon starts and cannot be reached."""
_SOCKET: Final = "control"


def pipe(root: Path, gpu: GPUUID) -> Path:
    """Return the directory by which clients find the GPU's daemon.

    Raises:
        InvalidInputError: the daemon's socket would have too long a path.
    """
    directory = root / gpu / "pipe"
    if len(str(directory / _SOCKET).encode()) > MAX_SOCKET_PATH:
        raise errors.InvalidInputError("--mps-root", str(root), f"choose one of {_room(gpu)} characters at most")
    return directory


def client_pipe(root: Path, gpu: GPUUID) -> Path:
    """Return the directory that tenants get instead: see `client_pipe`. Raises InvalidInputError, as `pipe` does."""
    return pipe(root, gpu).with_name("client-pipe")


def log(root: Path, gpu: GPUUID) -> Path:
    """Return the directory of what the daemon says: its `output`; under `-d`, `control.log` and `server.log`."""
    return root / gpu / "log"


def output(root: Path, gpu: GPUUID) -> Path:
    """Where the standard output of the daemon and its servers goes: under `-f` all that they say goes there."""
    return log(root, gpu) / "output.log"


def ended(root: Path, gpu: GPUUID) -> Path:
    """Return the file that names the GPU's servers which were ended in good order: see `leaving`."""
    return root / gpu / "ended"


def compute_mode(root: Path, gpu: GPUUID) -> Path:
    """Return what the GPU's compute mode was before the agent first set it.

    It lasts as long as the mode does: to a reboot.
    """
    return root / gpu / "compute-mode"


def given_back(root: Path) -> Path:
    """Return the file by which the agent says that nobody comes after it."""
    return root / "given-back"


def _room(gpu: GPUUID) -> int:
    return MAX_SOCKET_PATH - len(f"/{gpu}/pipe/{_SOCKET}")
