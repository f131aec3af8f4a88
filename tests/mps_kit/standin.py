"""The stand-in's control program as that of one of NVIDIA's drivers, to be asked what they are asked."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from cotenant_standin import mps_control, state
from mps_kit import programs, session


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """As `session.Programs`.

    Attributes:
        folder: for the stand-in's files.
        version: of the driver.
        arguments: by which its daemon runs in the foreground.
    """

    folder: Path
    version: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """The stand-in's program."""
        return (str(self.folder / mps_control.PROGRAM),)

    def serving(self, folder: Path, server: programs.ServerProgram) -> dict[str, str]:
        """The environment in which its servers are such ones. Files are written once: others may be reading them."""
        if not Path(self.command[0]).exists():
            mps_control.install(self.folder)
        machine = state.State(folder / "gpu")
        if not machine.root.exists():
            state.create(machine.root).gpu(0).set("uuid", session.GPU)
            (machine.root / "driver_version").write_text(f"{self.version} (stand-in)\n")
        fault = "mps_server_fails" if server is programs.ServerProgram.FAILING else "mps_initializing"
        (machine.root / fault).touch()
        return {**os.environ, state.FOLDER_VARIABLE: str(machine.root)}

    def give(self, pipe: Path, command: str) -> None:
        """As `session.Programs`."""
        give(pipe, command)


def give(pipe: Path, command: str) -> None:
    """Give a command to a stand-in's daemon by its socket, whatever characters it has."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(pipe / mps_control.SOCKET))
        connection.sendall(f"command-line\n{mps_control.asked(command)}".encode())
        with connection.makefile() as answer:
            while answer.readline().strip() != mps_control.END_OF_ANSWER:
                pass
