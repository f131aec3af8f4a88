"""Asks the control daemon of one GPU through NVIDIA's program `nvidia-cuda-mps-control`, and reads its answers exactly.

Commands go to the program's standard input, one process for several: a question costs a process, whatever it asks.
What the answers mean for the GPU is decided elsewhere. Commands, and how the program takes them: manual page
nvidia-cuda-mps-control(1) and https://docs.nvidia.com/deploy/mps/latest/mpsv2-interface.html. It reads commands, one a
line, until the input ends, and fails only where no daemon is found or the connection breaks: that a command was
rejected is told like any answer (`RefusedError`).
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_deviceplugin import programs
from cotenant_deviceplugin.mps import layout, presence

ANSWER_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 5.0
INITIALIZING: Final = "INITIALIZING"
ABSENT: Final = "Cannot find MPS control daemon"
RETRIES: Final = 2
BROKEN_SECONDS: Final = 0.05
BROKEN: Final = "Cannot send command"
"""Said by the program of a daemon that is there."""
MAX_BYTES: Final = 64 * 1024
"""Of an answer: a GPU has 60 clients at most."""
_DEFAULT: Final = "get_default_active_thread_percentage"
_REPLACED: Final = "cotenant-mps replaces it once nobody uses the GPU"
_STATUS = re.compile(r"[A-Z][A-Z_]+")
_PERCENTAGE = re.compile(r"\d{1,3}\.\d+")
_NUMBER = re.compile(r"\d+")


class NoDaemonError(errors.TemporaryError):
    """No process serves this directory as control daemon."""


class NoProgramError(NoDaemonError):
    """NVIDIA's control program is not here, so that nobody can ask whether there is a daemon."""


class NoAnswerError(errors.TemporaryError):
    """The control daemon lives and does not answer, or says what nobody understands."""


class RefusedError(errors.TemporaryError):
    """The control daemon has said why it does not do what it was told."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the daemon said in one round about one server.

    Attributes:
        servers: PIDs of all servers.
        status: of the server asked for, in the daemon's word: `ACTIVE`, `FAULT`, `INITIALIZING`.
        clients: PIDs of the server's clients.
        thread_percentage: the server's own limit for later clients; None: it initializes, and nobody can ask it.
        default_percentage: the limit of servers started later.
    """

    servers: tuple[int, ...]
    status: str
    clients: tuple[int, ...]
    thread_percentage: float | None
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
        """Return whether a daemon is there; one that hangs is. Raises NoProgramError: then nobody knows."""
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
        return await self._listed("get_server_list")

    async def status(self, server: int) -> str:
        """Return a server's status, from `get_server_status`.

        The one question about a server that is always answered.
        """
        said = (await self.ask(f"get_server_status {server}")).strip()
        if not _STATUS.fullmatch(said):
            raise _not_understood(said, "to get_server_status")
        return said

    async def clients(self, server: int) -> tuple[int, ...]:
        """PIDs of a server's clients as the daemon's PID namespace counts, from `get_client_list`.

        One that initializes has none and is not asked: see `describe`.
        """
        if await self.status(server) == INITIALIZING:
            return ()
        return await self._listed(f"get_client_list {server}")

    async def _listed(self, command: str) -> tuple[int, ...]:
        """Return the numbers that are answered to one command.

        A daemon that is busy with another's question answers nothing, and the exit status is 0 (drivers 550 to 580).
        That must not be read as an empty list: so another question is put behind it, whose answer is never empty.
        """
        *listed, last = (await self._answer(command, _DEFAULT)).split() or [""]
        if not last:
            message = f"the MPS control daemon in {self._pipe} answers nothing to {command}: it is busy"
            raise NoAnswerError(message, delay_seconds=RETRY_SECONDS)
        if not _PERCENTAGE.fullmatch(last):
            raise _not_understood(" ".join((*listed, last)), f"to {command.partition(' ')[0]}")
        return _numbers(listed, command.partition(" ")[0])

    async def describe(self, server: int) -> Answers:
        """All about one server in one round; it is not to be asked of one that initializes.

        Where an earlier server was ended while it initialized, the daemon asks the next one for its clients, and waits
        until that is ready (drivers 550 to 580).
        """
        commands = (
            "get_server_list",
            f"get_server_status {server}",
            f"get_client_list {server}",
            f"get_active_thread_percentage {server}",
            _DEFAULT,
        )
        return parse(await self._answer(*commands))

    async def start_server(self) -> None:
        """Start a server of user 0, which `-multiuser-server` shares with all users; defaults are set before it.

        `set_default_active_thread_percentage` acts on servers started later; a client's environment can only lower it.
        Returns while the server initializes. Where there is one no second one is started. Raises RefusedError.
        """
        await self._told("set_default_active_thread_percentage 100", done=("100.0",))
        await self._told("start_server -uid 0")

    async def shutdown_server(self, server: int, *, with_clients: bool) -> None:
        """End a server: `shutdown_server PID` waits until its clients are gone, `-f` does not.

        One that initializes hears `-f` alone, as a signal. Raises RefusedError; not for a server that is gone.
        """
        command = f"shutdown_server {server} -f" if with_clients else f"shutdown_server {server}"
        await self._told(command, done=("", f"Server {server} not found"))

    async def terminate_client(self, server: int, client: int) -> None:
        """Take a client's work off the GPU so that its neighbours are not hurt, as they may be by a signal.

        Raises RefusedError.
        """
        await self._told(f"terminate_client {server} {client}", done=("", "0"))

    async def quit(self) -> None:
        """End the daemon and its servers; it waits for one that initializes. Raises RefusedError."""
        await self._told("quit")

    async def _answer(self, *commands: str) -> str:
        """As `ask`, of commands that are never answered by nothing: a daemon that is busy is asked again."""
        said = await self.ask(*commands)
        for _ in range(RETRIES):
            if said.strip():
                break
            await asyncio.sleep(BROKEN_SECONDS)
            said = await self.ask(*commands)
        return said

    async def _told(self, command: str, *, done: Sequence[str] = ("",)) -> None:
        """Have something done. Its exit status is 0 whatever comes of it: only the words tell."""
        said = (await self.ask(command)).strip()
        if said not in done:
            message = f"the MPS control daemon in {self._pipe} refused {command!r}: {errors.shortened(said)}"
            raise RefusedError(message, delay_seconds=RETRY_SECONDS)

    async def ask(self, *commands: str) -> str:
        """Return what the program prints for these commands, one after the other.

        Asked again where it breaks off: a daemon that lives drops a connection when a server of its ends, and the
        program says "Cannot send command" or nothing (drivers 550 to 580). Every command here may be given twice.

        Raises:
            NoDaemonError: there is no daemon.
            NoProgramError: there is no program.
            NoAnswerError: the daemon lives, and there is no answer in time, or none at all.
        """
        output, status = await self._run(commands)
        for _ in range(RETRIES):
            if status == 0 or ABSENT in output:
                break
            await asyncio.sleep(BROKEN_SECONDS)
            output, status = await self._run(commands)
        if status == 0:
            return output
        said = errors.shortened(output.strip() or f"exit code {status}")
        if BROKEN in output:
            message = f"the MPS control daemon in {self._pipe} broke off: {said}"
            raise NoAnswerError(message, delay_seconds=RETRY_SECONDS)
        daemon = await asyncio.to_thread(presence.found, self._pipe)
        if daemon is not None:
            message = f"MPS control daemon {daemon} in {self._pipe} lives and cannot be asked: {said}; {_REPLACED}"
            raise NoAnswerError(message, delay_seconds=RETRY_SECONDS)
        message = f"no MPS control daemon in {self._pipe}: {said}; the log of cotenant-mps says why none is started"
        raise NoDaemonError(message, delay_seconds=RETRY_SECONDS)

    async def _run(self, commands: Sequence[str]) -> tuple[str, int]:
        """Return what the program prints, and its exit status."""
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
        return output, process.returncode or 0

    async def _output(self, process: asyncio.subprocess.Process, commands: str) -> str:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                output, _ = await programs.communicate(process, commands.encode(), max_bytes=MAX_BYTES)
        except TimeoutError as error:
            daemon = await asyncio.to_thread(presence.found, self._pipe)
            which = "the MPS control daemon" if daemon is None else f"MPS control daemon {daemon}"
            message = f"{which} in {self._pipe} did not answer within {self._timeout_seconds:g} s; {_REPLACED}"
            raise NoAnswerError(message, delay_seconds=RETRY_SECONDS) from error
        except programs.TooMuchError as error:
            message = f"the MPS control daemon in {self._pipe} answers more than {MAX_BYTES} bytes"
            raise NoAnswerError(message, delay_seconds=RETRY_SECONDS) from error
        finally:
            await programs.end(process)
        return output.decode(errors="replace")


def parse(text: str) -> Answers:
    """Read the answers to the five commands of `Control.describe`: numbers, a word, numbers, one or two decimals.

    A list may be empty, and one number stands on a line; the word and the decimals tell where one answer ends. Of a
    server that initializes the first decimal is not there (drivers 550 to 580).

    Raises:
        NoAnswerError: anything else, as when the server asked for has ended meanwhile.
    """
    words = text.split()
    at = next((index for index, word in enumerate(words) if not _NUMBER.fullmatch(word)), len(words))
    status, rest = "".join(words[at : at + 1]), words[at + 1 :]
    count = len(rest) - next((index for index, word in enumerate(rest) if not _NUMBER.fullmatch(word)), len(rest))
    clients, percentages = rest[: len(rest) - count], rest[len(rest) - count :]
    answered = count == 2 or (count == 1 and status != "ACTIVE")
    if not _STATUS.fullmatch(status) or not answered or not all(map(_PERCENTAGE.fullmatch, percentages)):
        raise _not_understood(text, "about its server")
    return Answers(
        servers=_numbers(words[:at], "get_server_list"),
        status=status,
        clients=_numbers(clients, "get_client_list"),
        thread_percentage=float(percentages[0]) if count == 2 else None,
        default_percentage=float(percentages[-1]),
    )


def _numbers(words: Sequence[str], command: str) -> tuple[int, ...]:
    if not all(map(_NUMBER.fullmatch, words)):
        raise _not_understood(" ".join(words), f"to {command}")
    return tuple(int(word) for word in words)


def _not_understood(text: str, subject: str) -> NoAnswerError:
    said = errors.shortened(text.strip())
    return NoAnswerError(f"the MPS control daemon said {subject}: {said}", delay_seconds=RETRY_SECONDS)
