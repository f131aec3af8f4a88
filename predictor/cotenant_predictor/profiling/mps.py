"""An own MPS control daemon, in own folders, for one GPU.

It is started as the user who measures, and ended with the campaign.

No setting of the GPU is changed. A CUDA process that does not reach its daemon runs on without MPS, silently: so
whoever measures under MPS must check that the daemon knows the process (`clients`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import mechanisms

PROGRAM = ("nvidia-cuda-mps-control",)
_ANSWER_SECONDS = 15.0
_START_SECONDS = 30.0
_ACTIVE_SECONDS = 10.0
_DRIVER_FOLDERS = "/usr/bin:/usr/local/nvidia/bin:/opt/nvidia/bin"
_OWNER = "campaign.pid"
_PREFIX = "cotenant-mps-"
_PID_FILE = "nvidia-cuda-mps-control.pid"


class MpsUnavailableError(Exception):
    """There is no MPS here; the message says why."""


class ControlDaemon:
    """The daemon of one GPU. `program`: the control program and its fixed arguments."""

    def __init__(self, program: Sequence[str], *, gpu_uuid: str, folder: Path) -> None:
        self._program, self._uuid, self._folder = tuple(program), gpu_uuid, folder

    @property
    def pipe_directory(self) -> str:
        """Where clients find it."""
        return str(self._folder / "pipe")

    @classmethod
    def start(
        cls, program: Sequence[str], *, gpu_uuid: str, arguments: Sequence[str] = (), before: Sequence[str] = ()
    ) -> ControlDaemon:
        """Start daemon and server. The folder is short, as a socket's path may have 107 characters.

        Args:
            program: the control program and its fixed arguments.
            gpu_uuid: the only GPU that the daemon sees.
            arguments: of the daemon beside `-d`.
            before: commands between the start of the daemon and that of the server.

        Raises:
            MpsUnavailableError: the program is missing, or no server comes up.
        """
        found = shutil.which(program[0]) or shutil.which(program[0], path=_DRIVER_FOLDERS)
        if found is None:
            raise MpsUnavailableError(f"{program[0]} is neither on PATH nor in {_DRIVER_FOLDERS}")
        complete = (found, *program[1:])
        cls.end_left_over(complete, gpu_uuid=gpu_uuid)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        daemon = cls(complete, gpu_uuid=gpu_uuid, folder=folder)
        try:
            daemon._start(arguments, before)
        except MpsUnavailableError:
            daemon.stop()
            raise
        return daemon

    @property
    def log_directory(self) -> str:
        """Where it and its servers write."""
        return str(self._folder / "log")

    def logs(self) -> dict[str, str]:
        """Return the text of each log by name."""
        files = sorted((self._folder / "log").glob("*.log"))
        return {file.name: file.read_text(errors="replace") for file in files}

    def open_to_all(self) -> None:
        """Let other users reach the pipe: a socket's folders must be traversable."""
        for folder in (self._folder, self._folder / "pipe", self._folder / "log"):
            folder.chmod(0o755)

    def server(self) -> int | None:
        """Return the server's process; none before the first client."""
        found = self.ask("get_server_list").split()
        return int(found[0]) if found and found[0].isdigit() else None

    def status(self) -> str:
        """ACTIVE, FAULT, or what else the server says; empty without a server."""
        server = self.server()
        return "" if server is None else self.ask(f"get_server_status {server}").strip()

    def clients(self) -> tuple[int, ...]:
        """Return the processes connected to the server; their numbers may be those of another PID namespace."""
        server = self.server()
        found = () if server is None else self.ask(f"get_client_list {server}").split()
        return tuple(int(word) for word in found if word.isdigit())

    def terminate(self, pid: int) -> None:
        """End a client so that its neighbours are not hurt, as a signal would."""
        server = self.server()
        if server is not None:
            self.ask(f"terminate_client {server} {pid}")

    def ask(self, command: str) -> str:
        """Return what the control program prints.

        Raises:
            MpsUnavailableError: the daemon does not answer.
        """
        try:
            done = subprocess.run(
                self._program,
                input=command + "\n",
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=_ANSWER_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise MpsUnavailableError(f"{command}: {error}"[:256]) from error
        return done.stdout

    @classmethod
    def end_left_over(cls, program: Sequence[str], *, gpu_uuid: str) -> int:
        """End daemons that killed campaigns of this user have left; how many. Those of living ones are left alone."""
        count = 0
        for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
            try:
                owner, uid = (folder / _OWNER).read_text(encoding="ascii").strip(), folder.stat().st_uid
            except (FileNotFoundError, PermissionError):
                continue  # it is beginning or ending now, or another user's
            if uid == os.getuid() and not _is_alive(owner):
                cls(program, gpu_uuid=gpu_uuid, folder=folder).stop()
                count += 1
        return count

    def stop(self) -> None:
        """End daemon and server, and remove the folders."""
        try:
            self.ask("quit")
        except MpsUnavailableError:
            self._kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, arguments: Sequence[str], before: Sequence[str]) -> None:
        # Whole at once: a campaign that begins meanwhile takes a folder whose owner it cannot read for left over.
        unfinished = self._folder / f"{_OWNER}.new"
        unfinished.write_text(str(os.getpid()), encoding="ascii")
        unfinished.replace(self._folder / _OWNER)
        for name in ("pipe", "log"):
            (self._folder / name).mkdir()
        try:
            subprocess.run(
                [*self._program, "-d", *arguments],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_START_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise MpsUnavailableError(f"the control daemon does not start: {error}"[:256]) from error
        for command in (*before, f"start_server -uid {os.getuid()}"):
            self.ask(command)
        deadline = time.monotonic() + _ACTIVE_SECONDS
        while (status := self.status()) != "ACTIVE" and time.monotonic() < deadline:
            time.sleep(0.1)
        if status in {"", "FAULT"}:  # a state that this does not know shows itself when the first client connects
            raise MpsUnavailableError(f"the server is {status or 'not there'}: {self._log()}"[:256])

    def _log(self) -> str:
        return " ".join(text.strip()[-100:] for text in self.logs().values())

    def _kill(self) -> None:
        path = self._folder / "pipe" / _PID_FILE
        if path.exists() and (number := path.read_text(encoding="ascii").strip()).isdigit():
            try:
                os.kill(int(number), signal.SIGTERM)
            except ProcessLookupError:
                return

    def _environment(self) -> Mapping[str, str]:
        return {
            **mechanisms.inherited(os.environ),
            mechanisms.PIPE_DIRECTORY: self.pipe_directory,
            mechanisms.LOG_DIRECTORY: self.log_directory,
            "CUDA_VISIBLE_DEVICES": self._uuid,
        }


def _is_alive(pid: str) -> bool:
    return pid.isdigit() and Path(f"/proc/{pid}").exists()
