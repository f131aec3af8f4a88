"""What a control daemon is asked in which state, and what came of it with the PIDs taken out. Data alone.

`SERVER` in a command stands for the PID of the server. Commands of one state go to one daemon in this order, so that
one may see what another has set.
"""

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from cotenant_standin import mps_log

STAND_IN_LINE: Final = mps_log.STAND_IN_LINE
"""What the stand-in says of itself first; nothing else of its output may differ."""
_LINE = re.compile(r"\[[-\d]+ [:.\d]+ +(\w+) +(\d+)\] ?(.*)")

DESCRIBE = [
    "get_server_list",
    "get_server_status SERVER",
    "get_client_list SERVER",
    "get_active_thread_percentage SERVER",
    "get_default_active_thread_percentage",
]


class State(enum.StrEnum):
    """Of the daemon when it is asked."""

    ABSENT = "no daemon"
    NO_SERVER = "no server"
    STARTING = "the server initializes"
    FAILED = "the server ended at once"
    ENDING = "the server was told to end while it initialized"
    AGAIN = "a server initializes after one that was ended while it did"
    QUIT = "after quit"


@dataclass(frozen=True)
class Case:
    """One question: commands of one run of the program; `raw`: given by the daemon's socket, without the program."""

    commands: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    raw: bool = False


def _each(*commands: str) -> tuple[Case, ...]:
    return tuple(Case((command,)) for command in commands)


_ABOUT_NOBODY = _each(
    "get_server_list",
    "get_server_status",
    "get_server_status 1",
    "get_server_status abc",
    "get_client_list",
    "get_client_list 1",
    "get_device_client_list",
    "get_device_client_list 1",
    "get_active_thread_percentage",
    "get_active_thread_percentage 1",
    "set_active_thread_percentage",
    "set_active_thread_percentage 1 50",
    "get_device_pinned_mem_limit",
    "get_device_pinned_mem_limit 1 0",
    "set_device_pinned_mem_limit 1 0 1G",
    "shutdown_server",
    "shutdown_server 1",
    "shutdown_server 1 -f",
    "terminate_client",
    "terminate_client 1",
    "terminate_client 1 2",
    "ps",
    "ps -p 1",
)

_DEFAULTS = _each(
    "get_default_active_thread_percentage",
    "set_default_active_thread_percentage 50",
    "get_default_active_thread_percentage",
    "set_default_active_thread_percentage 33.5",
    "get_default_active_thread_percentage",
    "set_default_active_thread_percentage 0",
    "set_default_active_thread_percentage 101",
    "set_default_active_thread_percentage abc",
    "set_default_active_thread_percentage",
    "set_default_active_thread_percentage 100",
    "get_default_device_pinned_mem_limit 0",
    "set_default_device_pinned_mem_limit 0 1G",
    "get_default_device_pinned_mem_limit 0",
    "set_default_device_pinned_mem_limit 0 512M",
    "get_default_device_pinned_mem_limit 0",
    "get_default_device_pinned_mem_limit 1",
    "set_default_device_pinned_mem_limit 0 4096M",
    "get_default_device_pinned_mem_limit 0",
    "set_default_device_pinned_mem_limit 0 1536M",
    "get_default_device_pinned_mem_limit 0",
    "set_default_device_pinned_mem_limit 0 2048K",
    "get_default_device_pinned_mem_limit 0",
    "set_default_device_pinned_mem_limit 0 1T",
    "get_default_device_pinned_mem_limit 0",
    "set_default_device_pinned_mem_limit 0 0",
    "get_default_device_pinned_mem_limit 0",
)

_NOT_UNDERSTOOD = (
    *_each("nonsense", "GET_CLIENT_LIST 1", "get_server", "get_server_list more", "start_server", "start_server 0"),
    *_each("start_server -uid", "start_server -uid abc"),
    Case(("",)),
    Case(()),
    Case(("get_server_list", "nonsense", "get_default_active_thread_percentage")),
    Case(tuple(command.replace("SERVER", "1") for command in DESCRIBE)),
)

FORGED: Final = "[2026-01-01 12:00:00.000 Server  4711] Client process 71 encountered a fatal GPU error."
_RAW = (
    Case(("get_server_list\n",), raw=True),
    Case((f"x\n{FORGED}\n",), raw=True),
    Case((f"\n{FORGED}",), raw=True),
)
"""Commands that the program cannot give, as it takes a line end for the end of one."""

_ABOUT_SERVER = (
    Case(("get_server_list",)),
    Case(("get_server_status SERVER",)),
    Case(("get_client_list SERVER",)),
    Case(("get_active_thread_percentage SERVER",)),
    Case(tuple(DESCRIBE)),
    *_each("get_server_status 1", "get_client_list 1", "get_active_thread_percentage 1", "terminate_client 1 2"),
    *_each("get_device_client_list", "get_device_client_list SERVER", "set_active_thread_percentage SERVER 50"),
    *_each("get_device_pinned_mem_limit SERVER 0", "set_device_pinned_mem_limit SERVER 0 1G"),
    *_each("terminate_client SERVER 2", "ps", "ps -p SERVER", "start_server -uid 0", "shutdown_server 1"),
)

CASES: Final = MappingProxyType(
    {
        State.ABSENT: (*_each("get_server_list", "nonsense", "quit"), Case(())),
        State.NO_SERVER: (*_ABOUT_NOBODY, *_DEFAULTS, *_NOT_UNDERSTOOD, *_RAW, Case((), arguments=("-f",))),
        State.FAILED: _each("start_server -uid 0", "get_server_list", "ps"),
        State.STARTING: (*_each("start_server -uid 0"), *_ABOUT_SERVER),
        State.ENDING: (
            *_each("shutdown_server SERVER"),
            *_ABOUT_SERVER,
            *_each("shutdown_server SERVER -f", "get_server_list"),
        ),
        State.AGAIN: _each(
            "get_server_list",
            "get_server_status SERVER",
            "get_active_thread_percentage SERVER",
            "get_client_list SERVER",
        ),
        State.QUIT: _each("quit", "get_server_list"),
    }
)
"""Those of each state; the first of `FAILED`, `STARTING`, `ENDING` and `QUIT` makes it."""


def unanswered(state: State, case: Case) -> bool:
    """Whether no answer comes until the server is ready."""
    return state is State.AGAIN and case.commands == ("get_client_list SERVER",)


def without_multiuser(arguments: Sequence[str]) -> tuple[Case, ...]:
    """Of a driver that knows no server for all users: what comes of asking for one."""
    return () if "-multiuser-server" in arguments else (Case((), arguments=("-f", "-multiuser-server")),)


def recorded(state: State, case: Case, output: str, status: int | None, log: list[str]) -> dict[str, Any]:
    """One exchange as it is kept; `status`: None where no answer came."""
    return {
        "state": state.value,
        **({"arguments": list(case.arguments)} if case.arguments else {}),
        **({"raw": True} if case.raw else {}),
        "commands": list(case.commands),
        "output": output,
        "rc": status,
        "log": log,
    }


def plain(text: str, *, server: int | None) -> str:
    """Without the PID of the server."""
    return text if server is None else re.sub(rf"\b{server}\b", "SERVER", text)


def lines(text: str, *, daemon: int, server: int | None) -> list[str]:
    """Of the daemon's output, without times and PIDs, and without what the stand-in says of itself."""
    told = []
    for line in text.splitlines():
        if line == STAND_IN_LINE:
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            told.append(plain(line, server=server))
            continue
        who, pid, said = parts.groups()
        named = "DAEMON" if int(pid) == daemon else "SERVER" if int(pid) == server else "OTHER"
        told.append(f"{who} {named}: {plain(said, server=server)}")
    return told
