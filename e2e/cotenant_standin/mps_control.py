"""The stand-in's `nvidia-cuda-mps-control`: `-f` and `-d` run the daemon (`mps_daemon`), else commands go to it.

As NVIDIA's does (run: 550 to 580): the front end reads commands, one a line, until the input ends, and fails only where
no daemon is found. Which driver's it is stands in the stand-in's folder. Imports little: every question starts it anew.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

PROGRAM = "nvidia-cuda-mps-control"
PIPE_DIRECTORY = "CUDA_MPS_PIPE_DIRECTORY"
DEFAULT_PIPE = "/tmp/nvidia-mps"  # noqa: S108  # the real one's default
SOCKET = "control"
NOT_FOUND = "Cannot find MPS control daemon process"
RUNNING = "An instance of this daemon is already running"
MULTIUSER_SINCE = 555
"""The driver since which one server may serve all users."""
LOGS = "COTENANT_STANDIN_LOGS"
"""Set for a daemon under `-d`: it writes files."""
MULTIUSER = ("-multiuser-server", "-M", "--multiuser-server")
END_OF_ANSWER = "\x04"
_START_SECONDS = 30.0


def install(folder: Path, *, interpreter: str = sys.executable, source: str = "") -> Path:
    """Write the program into a folder that may then stand first in PATH; its path.

    `interpreter`, `source`: Python and the folder of this package where the program runs, if that is not here.
    """
    path = folder / PROGRAM
    source = source or str(Path(__file__).resolve().parent.parent)
    path.write_text(
        f"#!{interpreter} -IS\n"
        "# A stand-in for tests: no GPU and no driver of NVIDIA is involved.\n"
        "import sys\n"
        f"sys.path.insert(0, {source!r})\n"
        "from cotenant_standin import mps_control\n"
        "sys.exit(mps_control.main(sys.argv[1:]))\n"
    )
    path.chmod(0o755)
    return path


def pipe_directory() -> Path:
    """Where the daemon listens, by the environment."""
    return Path(os.environ.get(PIPE_DIRECTORY) or DEFAULT_PIPE)


def main(arguments: Sequence[str]) -> int:
    """As the real program is called."""
    unknown = [word for word in arguments if word not in {"-d", "-f", *MULTIUSER}]
    if unknown:
        print("Unrecognized option")
        return 1
    if any(word in MULTIUSER for word in arguments) and driver() < MULTIUSER_SINCE:
        print(NOT_FOUND)
        return 1
    if "-f" in arguments:
        from cotenant_standin import mps_daemon

        return mps_daemon.main(multiuser=any(word in MULTIUSER for word in arguments))
    if "-d" in arguments:
        return _start([word for word in arguments if word != "-d"])
    return _pass_on()


def driver() -> int:
    """Return the major version of the driver whose program this is."""
    folder = Path(os.environ.get("COTENANT_STANDIN") or "/run/cotenant-standin")
    return int((folder / "driver_version").read_text().partition(".")[0])


def answers(folder: Path) -> bool:
    """Return whether a daemon listens there."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(folder / SOCKET)) == 0


def _start(arguments: Sequence[str]) -> int:
    if answers(pipe_directory()):
        print(RUNNING)
        return 1
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from cotenant_standin import mps_control as m;"
    command = [sys.executable, "-IS", "-c", f"{code} sys.exit(m.main(sys.argv[1:]))"]
    source = str(Path(__file__).resolve().parent.parent)
    complete, nothing = [*command, source, "-f", *arguments], subprocess.DEVNULL
    subprocess.Popen(
        complete,
        env={**os.environ, LOGS: "1"},
        start_new_session=True,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
    )
    deadline = time.monotonic() + _START_SECONDS
    while not answers(pipe_directory()):
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.01)
    return 0


def _pass_on() -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        if connection.connect_ex(str(pipe_directory() / SOCKET)) != 0:
            print(NOT_FOUND)
            return 1
        with connection.makefile("rw") as lines:
            lines.write("command-line\n")
            lines.flush()
            for line in sys.stdin:
                if not _ask(line.strip(), lines):
                    return 0 if line.split()[:1] == ["quit"] else 1
    return 0


def asked(command: str) -> str:
    """Return a command as the front end sends it: its length stands before it, so that it may hold any character."""
    return f"command {len(command.encode())}\n{command}"


def _ask(command: str, lines: TextIO) -> bool:
    """Print the answer to one command; whether the daemon is still there."""
    lines.write(asked(command))
    lines.flush()
    for line in lines:
        if line.strip() == END_OF_ANSWER:
            return True
        print(line, end="", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
