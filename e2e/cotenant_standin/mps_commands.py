"""The commands of the stand-in's MPS control daemon.

Without a server, or with one that initializes, it answers as NVIDIA's of the same driver does, word for word (recorded:
`tests/mps_kit/answers`). About an ACTIVE server and its clients it answers, for every driver, as 580.159.04 did on an
H200 (recorded there, too). What neither shows is modelled after
https://docs.nvidia.com/deploy/mps/latest/mpsv2-interface.html.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from cotenant_standin import mps_limits, waiting

if TYPE_CHECKING:
    from cotenant_standin.mps_daemon import Daemon
    from cotenant_standin.mps_parties import Client, Server

Arguments = Sequence[str]
_UID_NEEDED = "A user id (UID) is required to start a new server"
_PID_NEEDED = "A server PID is required"
_NO_DEFAULT_MEMORY = "No default pinned memory limit set for the device!"
_BAD_PERCENTAGE = "Invalid percentage, expected between (0.0, 100.0]"
_CONTEXT = 1
"""The number of a client's context. Not modelled: a client with several."""
_PS_HEADER = ("PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND")
_PS_WIDTHS = (10, 10, 15, 26, 15, 15)
_FORMAT_SINCE = 570
"""The driver since which it says that a command's format is invalid, and which default of memory it has set."""


class RejectedError(Exception):
    """A command that cannot be carried out; the lines are the answer, and are said as well."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)
        self.lines = lines


async def run(daemon: Daemon, line: str) -> str:
    """Return the answer to one command, ended by a line break unless it is empty.

    As NVIDIA's, the daemon repeats what it was told, line breaks included.
    """
    daemon.say(f"Cmd:{line}")
    name, *arguments = line.split() or [""]
    command = _COMMANDS.get(name)
    if command is None:
        lines = [f'Unknown command "{name}"']
    else:
        try:
            lines = await command(daemon, arguments)
        except RejectedError as error:
            lines = list(error.lines)
        except (ValueError, IndexError):  # modelled
            lines = []
    for said in lines:
        daemon.say(said)
    return "".join(f"{answer}\n" for answer in lines)


def _number(arguments: Arguments, at: int = 0) -> int:
    """As C reads one: what is none is 0."""
    found = re.match(r"-?\d+", arguments[at]) if len(arguments) > at else None
    return int(found[0]) if found else 0


async def _server_list(daemon: Daemon, _: Arguments) -> list[str]:
    return [] if daemon.server is None else [str(daemon.server.pid)]


async def _server_status(daemon: Daemon, arguments: Arguments) -> list[str]:
    if not _number(arguments):
        return [_PID_NEEDED]
    return [_server(daemon, arguments).status]


async def _start_server(daemon: Daemon, arguments: Arguments) -> list[str]:
    """Start a server and return at once; a second one is not started, and nothing is said of it."""
    if arguments[:1] != ["-uid"] or not re.fullmatch(r"\d+", "".join(arguments[1:2])):
        return [_UID_NEEDED]
    await daemon.start(int(arguments[1]))
    return []


async def _shutdown_server(daemon: Daemon, arguments: Arguments) -> list[str]:
    """Have the server take no new clients and end with its last one, at once under -f.

    One that initializes is at FAULT from then on, and hears of it when it is done.
    """
    server = _server(daemon, arguments)
    server.closing = True
    if server.busy:
        server.status = "FAULT"
    if "-f" in arguments:
        daemon.say(f"Force shutting down server {server.pid}")
        await daemon.end(server)
    await daemon.settle()
    return []


async def _client_list(daemon: Daemon, arguments: Arguments) -> list[str]:
    server = _server(daemon, arguments)
    if daemon.waits_for_clients:
        await waiting.until(lambda: daemon.stopped.is_set() or not server.busy)
    return [str(client.pid) for client in server.clients]


async def _device_client_list(daemon: Daemon, arguments: Arguments) -> list[str]:
    server = _server(daemon, arguments) if arguments else daemon.server
    if server is None or _busy(daemon, server):
        return []
    model = daemon.machine.by_uuid(daemon.gpu).read("name")
    return [f"[0] 00:00.0, {model}", *(f"{client.pid}.{_CONTEXT}" for client in server.clients)]


async def _ps(daemon: Daemon, arguments: Arguments) -> list[str]:
    server = daemon.server
    if "-p" in arguments:
        number = _number(arguments, 1)
        if server is None or server.pid != number:
            raise RejectedError(f"Server {number} not found", f"Server {number} not found\n")
        if _busy(daemon, server):
            raise RejectedError(f"Server {number} not found\n")
    elif server is None or _busy(daemon, server):
        raise RejectedError("Server not found")
    rows = [
        (str(client.pid), str(client.number), str(server.pid), daemon.gpu[:22], *_process(client.pid))
        for client in server.clients
    ]
    return ["".join(map(str.ljust, row, _PS_WIDTHS)) for row in (_PS_HEADER, *rows)]


def _process(pid: int) -> tuple[str, str]:
    """Return the PID namespace of a process and the program that it was started as; empty where it has ended."""
    folder = Path(f"/proc/{pid}")
    try:
        namespace = (folder / "ns" / "pid").stat().st_ino
        return str(namespace), (folder / "cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
    except OSError:
        return "", ""


async def _terminate_client(daemon: Daemon, arguments: Arguments) -> list[str]:
    """End a client; a failure is told in words and by a 1, and the program's status is 0 all the same."""
    number, server = _number(arguments), daemon.server
    if server is None or server.pid != number:
        raise RejectedError(f"Server {number} not found", f"Server {number} not found!", "1")
    if _busy(daemon, server):
        raise RejectedError(f"Server {number} not found!", "1")
    client = _client(server, _number(arguments, 1))
    await daemon.terminate(server, client)
    return ["0"]


async def _get_default_percentage(daemon: Daemon, _: Arguments) -> list[str]:
    return [f"{daemon.default.thread_percentage:.1f}"]


async def _set_default_percentage(daemon: Daemon, arguments: Arguments) -> list[str]:
    percentage = _percentage(arguments)
    if percentage is None:
        daemon.say(_BAD_PERCENTAGE)
    else:
        daemon.default = dataclasses.replace(daemon.default, thread_percentage=percentage)
    return await _get_default_percentage(daemon, arguments)


async def _get_percentage(daemon: Daemon, arguments: Arguments) -> list[str]:
    server = _server(daemon, arguments)
    return [] if _busy(daemon, server) else [f"{server.limits.thread_percentage:.1f}"]


async def _set_percentage(daemon: Daemon, arguments: Arguments) -> list[str]:
    """For clients that come later."""
    server = _server(daemon, arguments)
    percentage = _percentage(arguments[1:])
    if _busy(daemon, server) or percentage is None:
        return []
    server.limits = dataclasses.replace(server.limits, thread_percentage=percentage)
    return await _get_percentage(daemon, arguments)


async def _get_default_memory(daemon: Daemon, arguments: Arguments) -> list[str]:
    found = daemon.default_memory.get(_number(arguments))
    if found is None:
        daemon.say(_NO_DEFAULT_MEMORY)
    return [] if found is None else [mps_limits.shown(found)]


async def _set_default_memory(daemon: Daemon, arguments: Arguments) -> list[str]:
    device, size = _number(arguments), arguments[1]
    mib = mps_limits.mib(size) or None
    daemon.default_memory[device] = mib
    if device == 0:  # a daemon has one GPU
        daemon.default = dataclasses.replace(daemon.default, memory_mib=mib)
    if daemon.driver >= _FORMAT_SINCE:
        daemon.say(f"set_default_device_pinned_mem_limit {device} {size}.")
    return []


async def _get_memory(daemon: Daemon, arguments: Arguments) -> list[str]:
    if len(arguments) < 2 and daemon.driver >= _FORMAT_SINCE:
        daemon.say("Invalid command format.")
        return []
    server = _server(daemon, arguments)
    limit = server.limits.memory_mib
    return [] if _busy(daemon, server) or limit is None else [mps_limits.shown(limit)]


async def _set_memory(daemon: Daemon, arguments: Arguments) -> list[str]:
    """For clients that come later."""
    server = _server(daemon, arguments)
    if not _busy(daemon, server):
        server.limits = dataclasses.replace(server.limits, memory_mib=mps_limits.mib(arguments[2]) or None)
    return []


async def _quit(daemon: Daemon, arguments: Arguments) -> list[str]:
    """No new clients; when the last has ended, or after -t seconds, servers and daemon end.

    It waits for a server that initializes, too, whatever -t says.
    """
    daemon.quitting.set()
    loop = asyncio.get_running_loop()
    last = None
    if arguments[:1] == ["-t"]:
        last = loop.time() + float(arguments[1])
        daemon.say(f"quit command issued with timeout of {arguments[1]}")

    def over() -> bool:
        server = daemon.server
        if server is None or server.busy:
            return server is None
        return not server.clients or (last is not None and loop.time() >= last)

    await waiting.until(over)
    daemon.say("Exit with status 0")
    daemon.stopped.set()
    return []


def _busy(daemon: Daemon, server: Server) -> bool:
    """Return whether a server cannot be asked itself; that is said, and answered by nothing."""
    if server.busy:
        daemon.say(f"Server {server.pid} is <busy>")
    return server.busy


def _server(daemon: Daemon, arguments: Arguments) -> Server:
    number = _number(arguments)
    if daemon.server is None or daemon.server.pid != number:
        raise RejectedError(f"Server {number} not found")
    return daemon.server


def _client(server: Server, pid: int) -> Client:
    found = [client for client in server.clients if client.pid == pid]
    if not found:
        raise RejectedError(f"Invalid process {pid}!", "1")
    return found[0]


def _percentage(arguments: Arguments) -> float | None:
    try:
        found = float(arguments[0])
    except (ValueError, IndexError):
        return None
    return found if 0 < found <= 100 else None


_COMMANDS: MappingProxyType[str, Callable[[Daemon, Arguments], Awaitable[list[str]]]] = MappingProxyType(
    {
        "get_server_list": _server_list,
        "get_server_status": _server_status,
        "start_server": _start_server,
        "shutdown_server": _shutdown_server,
        "get_client_list": _client_list,
        "get_device_client_list": _device_client_list,
        "ps": _ps,
        "terminate_client": _terminate_client,
        "get_default_active_thread_percentage": _get_default_percentage,
        "set_default_active_thread_percentage": _set_default_percentage,
        "get_active_thread_percentage": _get_percentage,
        "set_active_thread_percentage": _set_percentage,
        "get_default_device_pinned_mem_limit": _get_default_memory,
        "set_default_device_pinned_mem_limit": _set_default_memory,
        "get_device_pinned_mem_limit": _get_memory,
        "set_device_pinned_mem_limit": _set_memory,
        "quit": _quit,
    }
)
