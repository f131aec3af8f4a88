"""The commands of the stand-in's MPS control daemon, as https://docs.nvidia.com/deploy/mps/latest/mpsv2-interface.html
and nvidia-cuda-mps-control(1) name them. An answer ends each line; what a refusal says is modelled.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from cotenant_standin import mps_limits, waiting

if TYPE_CHECKING:
    from cotenant_standin.mps_daemon import Client, Daemon, Server

Arguments = Sequence[str]


class RejectedError(Exception):
    """A command that cannot be carried out; the message is the answer."""


async def run(daemon: Daemon, words: Arguments) -> str:
    """The answer to one command, ended by a line break unless it is empty."""
    name, *arguments = words
    command = _COMMANDS.get(name)
    if command is None:
        return f"Unknown command: {name}\n"
    try:
        lines = await command(daemon, arguments)
    except RejectedError as error:
        lines = [str(error)]
    except (ValueError, IndexError):
        lines = [f"Invalid arguments: {name} {' '.join(arguments)}"]
    return "".join(f"{line}\n" for line in lines)


async def _server_list(daemon: Daemon, _: Arguments) -> list[str]:
    return [] if daemon.server is None else [str(daemon.server.pid)]


async def _server_status(daemon: Daemon, arguments: Arguments) -> list[str]:
    return [_server(daemon, arguments).status]


async def _start_server(daemon: Daemon, arguments: Arguments) -> list[str]:
    if arguments[0] != "-uid":
        raise RejectedError(f"Invalid arguments: {arguments[0]}")
    async with daemon.changed:
        if daemon.server is not None:
            raise RejectedError("A server is already running")
        if not await daemon.start(int(arguments[1])):
            raise RejectedError("Failed to start server")
    return []


async def _shutdown_server(daemon: Daemon, arguments: Arguments) -> list[str]:
    """The server takes no new clients and ends with its last one; -f: at once."""
    server = _server(daemon, arguments)
    server.closing = True
    if "-f" in arguments:
        await daemon.end(server)
    await daemon.settle()
    return []


async def _client_list(daemon: Daemon, arguments: Arguments) -> list[str]:
    return [str(client.pid) for client in _server(daemon, arguments).clients]


async def _device_client_list(daemon: Daemon, _: Arguments) -> list[str]:
    clients = () if daemon.server is None else daemon.server.clients
    return [f"Device {daemon.gpu}", *(str(client.pid) for client in clients)]


async def _ps(daemon: Daemon, _: Arguments) -> list[str]:
    header = "PID       ID    SERVER    DEVICE             NAMESPACE    COMMAND"
    server = daemon.server
    clients = () if server is None else server.clients
    pid = 0 if server is None else server.pid
    return [header, *(f"{c.pid:<9} 1     {pid:<9} {daemon.gpu[:17]:<18} 4026531836   -" for c in clients)]


async def _terminate_client(daemon: Daemon, arguments: Arguments) -> list[str]:
    server = _server(daemon, arguments)
    await daemon.terminate(server, _client(server, int(arguments[1])))
    return []


async def _get_default_percentage(daemon: Daemon, _: Arguments) -> list[str]:
    return [f"{daemon.default.thread_percentage:.1f}"]


async def _set_default_percentage(daemon: Daemon, arguments: Arguments) -> list[str]:
    daemon.default = dataclasses.replace(daemon.default, thread_percentage=float(arguments[0]))
    return await _get_default_percentage(daemon, arguments)


async def _get_percentage(daemon: Daemon, arguments: Arguments) -> list[str]:
    return [f"{_server(daemon, arguments).limits.thread_percentage:.1f}"]


async def _set_percentage(daemon: Daemon, arguments: Arguments) -> list[str]:
    """For clients that come later."""
    server = _server(daemon, arguments)
    server.limits = dataclasses.replace(server.limits, thread_percentage=float(arguments[1]))
    return await _get_percentage(daemon, arguments)


async def _get_default_memory(daemon: Daemon, _: Arguments) -> list[str]:
    return _memory(daemon.default)


async def _set_default_memory(daemon: Daemon, arguments: Arguments) -> list[str]:
    daemon.default = dataclasses.replace(daemon.default, memory_mib=mps_limits.mib(arguments[1]))
    return []


async def _get_memory(daemon: Daemon, arguments: Arguments) -> list[str]:
    return _memory(_server(daemon, arguments).limits)


async def _set_memory(daemon: Daemon, arguments: Arguments) -> list[str]:
    """For clients that come later."""
    server = _server(daemon, arguments)
    server.limits = dataclasses.replace(server.limits, memory_mib=mps_limits.mib(arguments[2]))
    return []


async def _quit(daemon: Daemon, arguments: Arguments) -> list[str]:
    """No new clients; when the last has ended, or after -t seconds, servers and daemon end."""
    daemon.quitting.set()
    loop = asyncio.get_running_loop()
    last = loop.time() + float(arguments[1]) if arguments[:1] == ["-t"] else None
    await waiting.until(
        lambda: daemon.server is None or not daemon.server.clients or (last is not None and loop.time() >= last)
    )
    daemon.stopped.set()
    return []


def _server(daemon: Daemon, arguments: Arguments) -> Server:
    if daemon.server is None or daemon.server.pid != int(arguments[0]):
        raise RejectedError(f"Server {arguments[0]} not found")
    return daemon.server


def _client(server: Server, pid: int) -> Client:
    found = [client for client in server.clients if client.pid == pid]
    if not found:
        raise RejectedError(f"Client {pid} not found")
    return found[0]


def _memory(limits: mps_limits.Limits) -> list[str]:
    return [] if limits.memory_mib is None else [f"{limits.memory_mib}M"]


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
