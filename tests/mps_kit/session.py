"""Puts every question of `exchanges` to a control daemon, NVIDIA's or the stand-in's, and says what came of it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from cotenant_deviceplugin.mps import layout
from mps_kit import exchanges, programs
from mps_kit.exchanges import Case, State

GPU: Final = "GPU-00000000-0000-0000-0000-000000000000"
ANSWERS: Final = Path(__file__).with_name("answers")
PATIENCE_SECONDS: Final = 20.0
_SILENCE_SECONDS: Final = 1.0
_STARTED = re.compile(r"Starting new server (\d+)")
_UNORDERED = re.compile(r"Starting new server|exited with status|Removed Shm")
"""Told by another process or at another moment than the answer: before it or after it."""
_LATER = {
    (State.FAILED, 0): ("Starting new server", "exited with status"),
    (State.STARTING, 0): ("Starting new server",),
    (State.ENDING, len(exchanges.CASES[State.ENDING]) - 2): ("exited with status",),
}
"""What the daemon says of a question at a moment of its own."""
_AFTER_EXIT = "Removed Shm file"
"""Said of an exit, by the drivers whose clients share named memory."""
_SERVERS = {
    State.NO_SERVER: programs.ServerProgram.FAILING,
    State.FAILED: programs.ServerProgram.FAILING,
}


class Programs(Protocol):
    """One control program: of one of NVIDIA's drivers, or the stand-in in its place."""

    @property
    def version(self) -> str:
        """Of the driver."""

    @property
    def command(self) -> tuple[str, ...]:
        """The program."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """By which its daemon runs in the foreground."""

    def serving(self, folder: Path, server: programs.ServerProgram) -> dict[str, str]:
        """The environment in which its servers are such ones."""

    def give(self, pipe: Path, command: str) -> None:
        """Give a command by the daemon's socket, as any program that reaches it can, whatever characters it has."""


@dataclass
class Daemon:
    """A running control daemon, whose output goes to a file."""

    program: Programs
    environment: dict[str, str]
    process: "subprocess.Popen[bytes]"
    output: Path
    named_memory: bool = False
    read: int = 0
    server: int | None = None

    def exchange(self, state: State, case: Case, *, later: tuple[str, ...] = ()) -> dict[str, Any]:
        """Put one question; `later`: what the daemon says of it at a moment of its own."""
        if exchanges.unanswered(state, case):
            return exchanges.recorded(state, case, "", self._unanswered(case), [])
        answered, status = self.ask(case)
        for words in later:
            self.until(words)
            if self.named_memory and words == "exited with status":
                self.until(_AFTER_EXIT)
        log = self._log(closed=not case.arguments, ending=case.commands == ("quit",))
        return exchanges.recorded(state, case, exchanges.plain(answered, server=self.server), status, log)

    def ask(self, case: Case) -> tuple[str, int]:
        """Without reading its output. What is given by the socket is not answered where anybody could read it."""
        if case.raw:
            for command in case.commands:
                self.program.give(Path(self.environment[layout.PIPE_DIRECTORY]), command)
            return "", 0
        commands = [command.replace("SERVER", str(self.server or "")) for command in case.commands]
        return programs.ask([*self.program.command, *case.arguments], commands, self.environment)

    def _unanswered(self, case: Case) -> int | None:
        """The status of what is not answered: None, unless it is answered."""
        commands = [command.replace("SERVER", str(self.server)) for command in case.commands]
        try:
            return programs.ask([*self.program.command], commands, self.environment, seconds=_SILENCE_SECONDS)[1]
        except subprocess.TimeoutExpired:
            return None

    def until(self, words: str) -> None:
        """Wait until the daemon has said so."""
        _wait(lambda: words in self.output.read_text()[self.read :], words)

    def begin(self) -> list[str]:
        """What it said before it was first asked."""
        text = self.output.read_text().partition("Accepting connection")[0].rpartition("\n")[0]
        return exchanges.lines(text.replace(str(self.output.parent), "FOLDER"), daemon=self.process.pid, server=None)

    def _log(self, *, closed: bool, ending: bool) -> list[str]:
        if ending:
            self.process.wait(timeout=PATIENCE_SECONDS)
        elif closed:
            _wait(lambda: "UI closed" in self.output.read_text()[self.read :], "UI closed")
        text = self.output.read_text()
        new, self.read = text[self.read :], len(text)
        for started in _STARTED.finditer(new):
            self.server = int(started[1])
        folder = str(self.output.parent)
        told = exchanges.lines(new.replace(folder, "FOLDER"), daemon=self.process.pid, server=self.server)
        later = sorted(line for line in told if _UNORDERED.search(line))
        return [line for line in told if not _UNORDERED.search(line)] + later


def heed_interrupts() -> None:
    """Let children be ended by SIGINT, as servers are: a shell has jobs in the background ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run(program: Programs, folder: Path) -> Iterator[dict[str, Any]]:
    """Every exchange, state by state; `folder` is short, for sockets."""
    for state, cases in exchanges.CASES.items():
        here = folder / state.name.lower()
        environment = _environment(program, here, state)
        if state is State.ABSENT:
            for case in (*cases, *exchanges.without_multiuser(program.arguments)):
                said, status = programs.ask([*program.command, *case.arguments], list(case.commands), environment)
                yield exchanges.recorded(state, case, said, status, [])
            continue
        with daemon(program, environment, here / "output") as running:
            running.exchange(state, Case(("get_server_list",)))  # what it says when it starts is compared elsewhere
            running.named_memory = int(program.version.partition(".")[0]) < programs.MEMFD_SINCE
            if state is State.NO_SERVER:
                yield {"state": "start", "arguments": list(program.arguments), "log": running.begin()}
            yield from _in_state(running, state, cases)


def _in_state(running: Daemon, state: State, cases: tuple[Case, ...]) -> Iterator[dict[str, Any]]:
    if state is State.ENDING:
        running.exchange(state, Case(("start_server -uid 0",)), later=_LATER[State.STARTING, 0])
    if state is State.AGAIN:
        running.exchange(state, Case(("start_server -uid 0",)), later=_LATER[State.STARTING, 0])
        running.exchange(state, Case(("shutdown_server SERVER -f",)), later=("exited with status",))
        running.exchange(state, Case(("start_server -uid 0",)), later=_LATER[State.STARTING, 0])
    for number, case in enumerate(cases):
        if running.process.poll() is not None:
            said, status = running.ask(case)
            yield exchanges.recorded(state, case, said, status, [])
            continue
        yield running.exchange(state, case, later=_LATER.get((state, number), ()))


@contextlib.contextmanager
def daemon(program: Programs, environment: dict[str, str], output: Path) -> Iterator[Daemon]:
    """A daemon in the foreground; it, and what it started, is ended with the block."""
    with (
        output.open("ab") as file,
        subprocess.Popen(
            [*program.command, *program.arguments], env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        ) as process,
    ):
        running = Daemon(program, environment, process, output)
        try:
            _wait(lambda: _answers(running), "an answer")
            running.read = len(output.read_text())
            yield running
        finally:
            for pid in _STARTED.findall(output.read_text()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            process.kill()


def _answers(running: Daemon) -> bool:
    if running.process.poll() is not None:
        raise RuntimeError(f"the daemon ended with {running.process.returncode}: {running.output.read_text()}")
    _, status = running.ask(Case(("get_server_list",)))
    return status == 0 and "UI closed" in running.output.read_text()


def _environment(program: Programs, folder: Path, state: State) -> dict[str, str]:
    for name in ("pipe", "log"):
        (folder / name).mkdir(parents=True)
    server = _SERVERS.get(state, programs.ServerProgram.INITIALIZING)
    return {
        **program.serving(folder, server),
        layout.PIPE_DIRECTORY: str(folder / "pipe"),
        layout.LOG_DIRECTORY: str(folder / "log"),
        "CUDA_VISIBLE_DEVICES": GPU,
    }


def kept(major: str) -> dict[str, Any]:
    """What NVIDIA's program of a driver said when it was recorded."""
    (path,) = ANSWERS.glob(f"{major}.*[0-9].json")  # not those of `active`
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _wait(condition: "Any", what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.005)
