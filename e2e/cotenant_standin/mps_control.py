"""The stand-in's `nvidia-cuda-mps-control`: `-f` and `-d` run the daemon (`mps_daemon`), else commands go to it.

As the manual page nvidia-cuda-mps-control(1) says: the front end reads commands, one a line, until the input ends, and
fails only where no daemon is found. Imports little, since every question starts it anew.
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
        print(f"Unknown option: {unknown[0]}")
        return 1
    if "-f" in arguments:
        from cotenant_standin import mps_daemon

        return mps_daemon.main(multiuser=any(word in MULTIUSER for word in arguments))
    if "-d" in arguments:
        return _start([word for word in arguments if word != "-d"])
    return _pass_on()


def answers(folder: Path) -> bool:
    """Whether a daemon listens there."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(folder / SOCKET)) == 0


def _start(arguments: Sequence[str]) -> int:
    if answers(pipe_directory()):
        print("An instance of this daemon is already running")
        return 1
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from cotenant_standin import mps_control as m;"
    command = [sys.executable, "-IS", "-c", f"{code} sys.exit(m.main(sys.argv[1:]))"]
    source = str(Path(__file__).resolve().parent.parent)
    complete, nothing = [*command, source, "-f", *arguments], subprocess.DEVNULL
    subprocess.Popen(complete, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing)
    deadline = time.monotonic() + _START_SECONDS
    while not answers(pipe_directory()):
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.01)
    return 0


def _pass_on() -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        if connection.connect_ex(str(pipe_directory() / SOCKET)) != 0:
            print("Cannot find MPS control daemon process")
            return 1
        with connection.makefile("rw") as lines:
            for line in sys.stdin:
                if line.strip() and not _ask(line.strip(), lines):
                    return 0 if line.split()[0] == "quit" else 1
    return 0


def _ask(command: str, lines: TextIO) -> bool:
    """Print the answer to one command; whether the daemon is still there."""
    lines.write(f"command {command}\n")
    lines.flush()
    for line in lines:
        if line.strip() == END_OF_ANSWER:
            return True
        print(line, end="", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
