"""NVIDIA's own MPS control programs of the drivers that `scripts/fetch-mps` has put into the cache, run without a GPU.

What needs a GPU is the server: another program stands in its place, which starts for ever or ends at once. So the
control program and its daemon are NVIDIA's, and no server of theirs gets ACTIVE.
"""

import contextlib
import enum
import os
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_standin import building

DRIVERS: Final = ("550", "555", "570", "580")
"""Those that are fetched."""
_MULTIUSER_SINCE: Final = 555
MEMFD_SINCE: Final = 570
"""From this driver on clients share memory without a name in /dev/shm."""
_CUDA_SINCE: Final = 580
"""From this driver on the daemon wants a libcuda that initializes."""
_HELLO: Final = b"OUTBHELL\0"
_CREDENTIALS: Final = b"OUTBCRED\0"
_PROGRAM: Final = 4
"""What a connection is of: here, of the control program."""
_ATTEMPTS: Final = 3
_BROKEN_SECONDS: Final = 0.05


class ServerProgram(enum.Enum):
    """What runs as `nvidia-cuda-mps-server`. The script's name is its process's name, as the real one's is."""

    INITIALIZING = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); signal.pause()"
    STUBBORN = (
        "import signal; [signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)]\n"
        "while True: signal.pause()"
    )
    FAILING = "raise SystemExit(1)"


@dataclass(frozen=True, kw_only=True)
class Real:
    """NVIDIA's programs of one driver."""

    folder: Path

    @property
    def version(self) -> str:
        """`570.133.07`."""
        return (self.folder / "version").read_text().strip()

    @property
    def major(self) -> int:
        """`570`."""
        return int(self.version.partition(".")[0])

    @property
    def command(self) -> tuple[str, ...]:
        """The control program."""
        return (str(self.folder / "bin" / "nvidia-cuda-mps-control"),)

    @property
    def arguments(self) -> tuple[str, ...]:
        """By which the daemon runs in the foreground, for all users where this driver can."""
        return ("-f", "-multiuser-server") if self.major >= _MULTIUSER_SINCE else ("-f",)

    @property
    def library(self) -> Path:
        """NVIDIA's libcuda."""
        return self.folder / "lib" / "libcuda.so.1"

    def serving(self, folder: Path, server: ServerProgram, *, initializes: bool = True) -> dict[str, str]:
        """The environment in which its servers are such ones; `folder`: for what that needs.

        `initializes`: whether a daemon that asks finds a libcuda that initializes.
        """
        servers = server_folder(folder / "servers", server)
        needs = self.major >= _CUDA_SINCE and initializes
        library = cuda_init() if needs else self.library
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "NVIDIA_"))}
        return {
            **inherited,
            "PATH": f"{servers}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "LD_LIBRARY_PATH": str(library.parent),
        }

    def give(self, pipe: Path, command: str) -> None:
        """As `session.Programs`. A daemon drops a connection now and then, before it has read anything."""
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(ConnectionError):
                return _give(pipe / "control", command.encode() + b"\0")
            time.sleep(_BROKEN_SECONDS)
        raise ConnectionError(f"{pipe}: the daemon takes no command")


def cache() -> Path:
    """Where `scripts/fetch-mps` puts them."""
    return building.cache().parent / "mps"


def found() -> tuple[Real, ...]:
    """Those that are there."""
    return tuple(Real(folder=cache() / name) for name in DRIVERS if (cache() / name / "version").exists())


def cuda_init() -> Path:
    """A libcuda that initializes without a GPU."""
    source = Path(__file__).with_name("cuda_init.c")
    return building.build(building.CUDA, (str(source),), flags=("-shared", "-fPIC"))


def server_folder(folder: Path, program: ServerProgram) -> Path:
    """A folder for the begin of PATH, in which the server is such a one."""
    path = folder / "nvidia-cuda-mps-server"
    if path.exists():  # it may run
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable} -IS\n{program.value}\n")
    path.chmod(0o755)
    return folder


def _give(control: Path, command: bytes) -> None:
    """What the program sends (strace, drivers 550 to 580): credentials, that it is no client, and each command."""
    credentials = struct.pack("3i", os.getpid(), os.getuid(), os.getgid())
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(control))
        connection.recv(len(_HELLO))
        connection.sendmsg([_CREDENTIALS], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)])
        connection.send(struct.pack("<i", _PROGRAM))
        for packet in (struct.pack("<q", len(command)), command, struct.pack("<q", 0)):
            connection.send(packet)


def ask(
    program: list[str],
    commands: list[str],
    environment: dict[str, str],
    *,
    seconds: float = 10.0,
    user: int | None = None,
) -> tuple[str, int]:
    """What a control program prints for these commands, and its exit status; `user`: whom it runs as, else as we do."""
    ran = subprocess.run(
        program,
        input="".join(f"{command}\n" for command in commands),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
        user=user,
    )
    return ran.stdout, ran.returncode
