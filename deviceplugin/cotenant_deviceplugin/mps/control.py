"""Asks the control daemon of one GPU through NVIDIA's program `nvidia-cuda-mps-control`, and reads its answers exactly.

Commands go to the program's standard input, one process for several: a question costs a process, whatever it asks.
What the answers mean for the GPU is decided elsewhere. Commands, and how the program takes them: manual page
nvidia-cuda-mps-control(1) and https://docs.nvidia.com/deploy/mps/latest/mpsv2-interface.html. It reads commands, one a
line, until the input ends, and fails only where no daemon is found or the connection breaks: that a command was
rejected is told like any answer.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_deviceplugin.mps import layout

ANSWER_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 5.0
_STATUS = re.compile(r"[A-Z][A-Z_]+")
_PERCENTAGE = re.compile(r"\d{1,3}\.\d+")
_NUMBER = re.compile(r"\d+")


class NoDaemonError(errors.TemporaryError):
    """No control daemon answers in this directory."""


class NoProgramError(NoDaemonError):
    """NVIDIA's control program is not here, so that nobody can ask whether there is a daemon."""


class NoAnswerError(errors.TemporaryError):
    """The control daemon is there and does not answer, or says what nobody understands."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the daemon said in one round about one server.

    Attributes:
        servers: PIDs of all servers.
        status: of the server asked for, in the daemon's word: `ACTIVE`, `FAULT`, `INITIALIZING`.
        clients: PIDs of the server's clients.
        thread_percentage: the server's own limit for later clients.
        default_percentage: the limit of servers started later.
    """

    servers: tuple[int, ...]
    status: str
    clients: tuple[int, ...]
    thread_percentage: float
    default_percentage: float


class Control:
    """The control daemon of one GPU.

    Args:
        pipe: its pipe directory.
        program: NVIDIA's program with whatever stands before it (`chroot /driver`).
        environment: of that program, beside the pipe directory.
        timeout_seconds: for one question.
    """

    def __init__(
        self,
        pipe: Path,
        *,
        program: Sequence[str] = layout.PROGRAM,
        environment: Mapping[str, str] | None = None,
        timeout_seconds: float = ANSWER_SECONDS,
    ) -> None:
        inherited = os.environ if environment is None else environment
        self._pipe, self._program, self._timeout_seconds = pipe, tuple(program), timeout_seconds
        self._environment = {**inherited, layout.PIPE_DIRECTORY: str(pipe)}

    async def answers(self) -> bool:
        """Whether a daemon is there; one that hangs is. Raises NoProgramError: then nobody knows."""
        if not self._pipe.is_dir():
            return False
        try:
            await self.servers()
        except NoProgramError:
            raise
        except NoDaemonError:
            return False
        except NoAnswerError:
            return True
        return True

    async def servers(self) -> tuple[int, ...]:
        """PIDs of the running servers, from `get_server_list`; none before the first client or `start_server`."""
        return _numbers((await self.ask("get_server_list")).split(), "get_server_list")

    async def clients(self, server: int) -> tuple[int, ...]:
        """PIDs of a server's clients as the daemon's PID namespace counts, from `get_client_list`."""
        return _numbers((await self.ask(f"get_client_list {server}")).split(), "get_client_list")

    async def describe(self, server: int) -> Answers:
        """All about one server in one round."""
        commands = (
            "get_server_list",
            f"get_server_status {server}",
            f"get_client_list {server}",
            f"get_active_thread_percentage {server}",
            "get_default_active_thread_percentage",
        )
        return parse(await self.ask(*commands))

    async def start_server(self) -> None:
        """Start a server of user 0, which `-multiuser-server` shares with all users; defaults are set before it.

        `set_default_active_thread_percentage` acts on servers started later; a client's environment can only lower it.
        """
        await self.ask("set_default_active_thread_percentage 100", "start_server -uid 0")

    async def shutdown_server(self, server: int, *, with_clients: bool) -> None:
        """End a server: `shutdown_server PID` waits until its clients are gone, `-f` does not."""
        await self.ask(f"shutdown_server {server} -f" if with_clients else f"shutdown_server {server}")

    async def terminate_client(self, server: int, client: int) -> None:
        """Take a client's work off the GPU so that its neighbours are not hurt, as they may be by a signal."""
        await self.ask(f"terminate_client {server} {client}")

    async def quit(self) -> None:
        """End the daemon and its servers."""
        await self.ask("quit")

    async def ask(self, *commands: str) -> str:
        """What the program prints for these commands, one after the other.

        Raises:
            NoDaemonError: no daemon.
            NoProgramError: no program.
            NoAnswerError: no answer in time.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *self._program,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self._environment,
            )
        except OSError as error:
            raise NoProgramError(f"{self._program[0]}: {error.strerror}", delay_seconds=RETRY_SECONDS) from error
        output = await self._output(process, "".join(f"{command}\n" for command in commands))
        if process.returncode != 0:
            said = errors.shortened(output.strip() or f"exit code {process.returncode}")
            raise NoDaemonError(f"no MPS control daemon in {self._pipe}: {said}", delay_seconds=RETRY_SECONDS)
        return output

    async def _output(self, process: asyncio.subprocess.Process, commands: str) -> str:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                output, _ = await process.communicate(commands.encode())
        except TimeoutError as error:
            message = f"the MPS control daemon in {self._pipe} did not answer within {self._timeout_seconds:g} s"
            raise NoAnswerError(message, delay_seconds=RETRY_SECONDS) from error
        finally:
            await _end(process)
        return output.decode(errors="replace")


def parse(text: str) -> Answers:
    """Read the answers to the five commands of `Control.describe`: numbers, a word, numbers, two decimals.

    A list may be empty, and one number stands on a line; the word and the decimals tell where one answer ends.

    Raises:
        NoAnswerError: anything else, as when the server asked for has ended meanwhile.
    """
    words = text.split()
    at = next((index for index, word in enumerate(words) if not _NUMBER.fullmatch(word)), len(words))
    status, rest = "".join(words[at : at + 1]), words[at + 1 :]
    clients, percentages = rest[:-2], rest[-2:]
    if not _STATUS.fullmatch(status) or len(percentages) != 2 or not all(map(_PERCENTAGE.fullmatch, percentages)):
        raise _not_understood(text, "about its server")
    return Answers(
        servers=_numbers(words[:at], "get_server_list"),
        status=status,
        clients=_numbers(clients, "get_client_list"),
        thread_percentage=float(percentages[0]),
        default_percentage=float(percentages[1]),
    )


def _numbers(words: Sequence[str], command: str) -> tuple[int, ...]:
    if not all(map(_NUMBER.fullmatch, words)):
        raise _not_understood(" ".join(words), f"to {command}")
    return tuple(int(word) for word in words)


def _not_understood(text: str, subject: str) -> NoAnswerError:
    said = errors.shortened(text.strip())
    return NoAnswerError(f"the MPS control daemon said {subject}: {said}", delay_seconds=RETRY_SECONDS)


async def _end(process: asyncio.subprocess.Process) -> None:
    """A question that nobody waits for any more must not stay as a process."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
