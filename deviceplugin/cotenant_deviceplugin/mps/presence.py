"""Find the process of a GPU's control daemon without asking it: a daemon that answers nothing may live or not.

A daemon writes its PID beside its sockets, into a folder of root's, and what died leaves the file behind (drivers 550
to 580). PIDs are the host's: agent and daemons share its PID namespace.
"""

from pathlib import Path
from typing import Final

PID_FILE: Final = "nvidia-cuda-mps-control.pid"
_COMM: Final = b"nvidia-cuda-mps"
"""How the kernel cuts the name of NVIDIA's programs off."""
_MAX_BYTES: Final = 32


def found(pipe: Path) -> int | None:
    """Return the PID of the living control daemon of a pipe directory; None: there is none."""
    try:
        with (pipe / PID_FILE).open("rb") as file:
            pid = int(file.read(_MAX_BYTES))
    except (OSError, ValueError):
        return None
    return pid if pid > 0 and _lives(pid) else None


def _lives(pid: int) -> bool:
    """Return whether a program of NVIDIA's MPS runs as this process; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    name, _, rest = stat.partition(b"(")[2].rpartition(b")")
    return name == _COMM and rest.split(maxsplit=1)[0] not in {b"Z", b"X"}
