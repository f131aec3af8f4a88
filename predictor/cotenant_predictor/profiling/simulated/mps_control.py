"""A stand-in for `nvidia-cuda-mps-control`.

`-d` starts the daemon; else it passes commands from standard input to it.

As documented of the real one: a server is started by the first client or by `start_server`; defaults are for later
servers and clients can only lower them; a fatal fault of one client ends all and new ones are refused until the last
is gone; `quit` ends daemon and server. Not modelled: users, several GPUs, static partitions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cotenant_predictor.profiling import mechanisms

from . import mps_client

_START_SECONDS = 10.0
_PID_FILE = "nvidia-cuda-mps-control.pid"
_NOT_READY = "CUDA_ERROR_MPS_SERVER_NOT_READY"


@dataclasses.dataclass(frozen=True)
class Limits:
    """What later clients of a server get at most; None: all of the memory."""

    thread_percentage: int = 100
    memory_mib: int | None = None

    def command(self, name: str, arguments: list[str]) -> tuple[Limits, str]:
        """Return the limits after a command, and what it prints."""
        found = self
        if name == "set_active_thread_percentage":
            found = dataclasses.replace(self, thread_percentage=int(float(arguments[0])))
        elif name == "set_device_pinned_mem_limit":
            found = dataclasses.replace(self, memory_mib=mps_client.mib(arguments[1]))
        elif name == "get_device_pinned_mem_limit":
            return self, "" if self.memory_mib is None else f"{self.memory_mib}M"
        elif name != "get_active_thread_percentage":
            return self, f"Unknown command: {name}"
        return found, f"{found.thread_percentage}.0" if "percentage" in name else ""


class Daemon:
    """State of the daemon: its server, the clients, the defaults."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._clients: dict[int, socket.socket] = {}
        self._default, self._current, self._fault = Limits(), Limits(), False

    def admit(self, pid: int, percentage: int, connection: socket.socket) -> dict[str, Any]:
        """Return a client connects."""
        with self._lock:
            if self._fault:
                return {"error": _NOT_READY}
            server = self._started()
            self._clients[pid] = connection
            granted = min(percentage, self._current.thread_percentage)
            return {"server": server, "threadPercentage": granted, "memoryMiB": self._current.memory_mib}

    def leave(self, pid: int) -> None:
        """Take out a client that is gone; the last one's end clears a fault."""
        with self._lock:
            self._clients.pop(pid, None)
            self._fault = self._fault and bool(self._clients)

    def fault(self) -> None:
        """Tell every client of the server that one had a fatal fault."""
        with self._lock:
            self._fault = bool(self._clients)
            for connection in self._clients.values():
                with contextlib.suppress(OSError):
                    connection.sendall(b"fault\n")

    def command(self, line: str) -> str:
        """Return what the program prints for a command."""
        name, *arguments = line.split()
        with self._lock:
            if name == "get_server_list":
                return str(self._server.pid) if self._server else ""
            if name == "start_server":
                self._started()
                return ""
            if "_default_" in name:
                self._default, text = self._default.command(name.replace("_default_", "_"), arguments)
                return text
            return self._of_server(name, arguments)

    def stop(self) -> None:
        """End the server."""
        with self._lock:
            if self._server is not None:
                self._server.kill()
                self._server.wait()

    def _of_server(self, name: str, arguments: list[str]) -> str:
        if self._server is None or arguments[:1] != [str(self._server.pid)]:
            return "Server not found"
        if name == "get_server_status":
            return "FAULT" if self._fault else "ACTIVE"
        if name == "get_client_list":
            return "\n".join(str(pid) for pid in sorted(self._clients))
        if name != "terminate_client":
            self._current, text = self._current.command(name, arguments[1:])
            return text
        pid = int(arguments[1])
        if pid not in self._clients:
            return "Client not found"
        os.kill(pid, signal.SIGKILL)
        return "0"

    def _started(self) -> int:
        if self._server is None:
            waiting = [sys.executable, "-c", "import sys; sys.stdin.read()"]
            self._server = subprocess.Popen(waiting, stdin=subprocess.PIPE)
            self._current = self._default
        return self._server.pid


class Handler(socketserver.StreamRequestHandler):
    """A connection: a line of JSON from a client, which then stays, or a line of text from the control program."""

    server: Server

    def handle(self) -> None:
        """Answer, and notice when a client is gone."""
        line = self.rfile.readline().decode().strip()
        if line == "quit":
            self.server.shutdown()
        elif line == "fault":
            self.server.daemon.fault()
        elif line.startswith("{"):
            self._serve_client(json.loads(line))
        elif line:
            self.wfile.write(self.server.daemon.command(line).encode() + b"\n")

    def _serve_client(self, asked: dict[str, Any]) -> None:
        pid = int(asked["client"])
        reply = self.server.daemon.admit(pid, asked["threadPercentage"], self.connection)
        self.wfile.write(json.dumps(reply).encode() + b"\n")
        if "error" not in reply:
            with contextlib.suppress(OSError):
                self.rfile.read()
            self.server.daemon.leave(pid)


class Server(socketserver.ThreadingUnixStreamServer):
    """Listens in the pipe directory."""

    daemon_threads = True
    daemon: Daemon


def main(arguments: list[str]) -> int:
    """As the real program is called."""
    folder = Path(os.environ.get(mechanisms.PIPE_DIRECTORY, "/tmp/nvidia-mps"))  # noqa: S108  # the real one's default
    if arguments == ["-f"]:
        return _serve(folder)
    if arguments == ["-d"]:
        return _start(folder)
    return _pass_on(folder)


def _serve(folder: Path) -> int:
    path = folder / mps_client.SOCKET
    with Server(str(path), Handler) as server:
        server.daemon = Daemon()
        (folder / _PID_FILE).write_text(str(os.getpid()), encoding="ascii")
        server.serve_forever(poll_interval=0.02)
    server.daemon.stop()
    path.unlink()
    return 0


def _start(folder: Path) -> int:
    if _answers(folder):
        print("An instance of this daemon is already running")
        return 1
    command = [sys.executable, "-m", __spec__.name, "-f"]
    log = Path(os.environ.get(mechanisms.LOG_DIRECTORY, str(folder))) / "control.log"
    with log.open("ab") as file:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(folder):
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.02)
    return 0


def _pass_on(folder: Path) -> int:
    for line in sys.stdin:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(folder / mps_client.SOCKET))
            except OSError:
                print("Cannot find MPS control daemon process")
                return 1
            connection.sendall(line.encode())
            connection.shutdown(socket.SHUT_WR)
            print(connection.makefile().read(), end="", flush=True)
    return 0


def _answers(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(folder / mps_client.SOCKET)) == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
