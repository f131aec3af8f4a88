"""The reading process as the operator sees it: started, asked, and started again where it is gone.

A problem is the tenant's and stands for ever; a fault is nobody's and is tried again, a bounded number of times.
"""

import asyncio
import contextlib
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import ValidationError

from cotenant_api import errors
from cotenant_operator.parsing import confinement, remembering, tasks, turns, zygote

_LOGGER = logging.getLogger(__name__)

START_SECONDS: Final = 60.0
MARGIN_SECONDS: Final = 10.0
"""How much longer than a child the process may take to answer, before it is started again."""
MAX_FAULTS: Final = 3
"""In a row of one question; then it is put off for long."""
RETRY_SECONDS: Final = 5.0
PUT_OFF_SECONDS: Final = 600.0
REMEMBERED: Final = 1024
"""Questions with faults."""
_CRASHES: Final = 2
"""So often the same signal has to end a child until its bytes are held to be the reason."""
_MODULE: Final = "cotenant_operator.parsing.zygote"
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
"""All that the process finds there: threads would not outlive a fork."""


_Question = tuple[str, str]
"""Namespace, and digest of what is asked."""


class Parser(Protocol):
    """Reads what tenants wrote."""

    @property
    def ready(self) -> tasks.Ready:
        """What reads, and what it knows."""

    def check(self, namespace: str) -> None:
        """Raise TemporaryError where `ask` would, for too many of this namespace that wait."""

    async def ask(self, namespace: str, task: tasks.Task, data: bytes) -> tasks.Answer:
        """Return the answer; a fault where it was tried often enough for now. Raises TemporaryError."""


@dataclass(kw_only=True)
class _Running:
    """A process that has loaded everything."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    def end(self) -> None:
        """Kill it."""
        self.control.close()
        self.process.kill()
        self.process.wait()


@dataclass(kw_only=True, slots=True)
class _Faults:
    """What went wrong with a question so far; `again_at`: seconds on the loop's clock."""

    count: int = 0
    crashes: int = 0
    again_at: float = 0.0


class Process:
    """The reading process.

    Args:
        model: the folder of the model that predicts; None: the one that ships.
        devices: a file with rows of further GPU models; None: none.
        command: what is run in its place; it gets the number of its socket as one more argument.
    """

    def __init__(
        self, *, model: Path | None = None, devices: Path | None = None, command: Sequence[str] | None = None
    ) -> None:
        files = ("" if path is None else str(path) for path in (model, devices))
        self._command = tuple(command or (sys.executable, "-m", _MODULE, *files))
        self._running: _Running | None = None
        self._turns = turns.Turns()
        self.faults: remembering.Remembered[_Faults] = remembering.Remembered(REMEMBERED)
        self.ready = tasks.Ready()
        self.peak_kib = 0
        """The largest child so far."""

    @property
    def pid(self) -> int:
        """Of the process that runs; 0: none does."""
        return 0 if self._running is None else self._running.process.pid

    async def start(self) -> None:
        """Start it and wait until it has loaded everything.

        Raises:
            PermanentError: it cannot run here, or the model cannot be used.
        """
        problem = confinement.unsupported()
        if problem is not None:
            raise errors.PermanentError(problem)
        try:
            await self._opened()
        except errors.TemporaryError as error:
            raise errors.PermanentError(str(error)) from error

    async def close(self) -> None:
        """End it."""
        running, self._running = self._running, None
        if running is not None:
            running.end()

    def check(self, namespace: str) -> None:
        """Raise TemporaryError where `ask` would, for too many of this namespace that wait."""
        self._turns.check(namespace)

    async def ask(self, namespace: str, task: tasks.Task, data: bytes) -> tasks.Answer:
        """Return the answer, or why the bytes cannot be used; a fault where it was tried often enough for now.

        Raises:
            TemporaryError: not now: too many wait, or a fault, which is tried again.
        """
        described = len(task.text())
        if described > zygote.MAX_REQUEST_BYTES:
            remedy = f"may be {zygote.MAX_REQUEST_BYTES}: name fewer tensors in spec.inputShapes, by shorter names"
            found = f"{described} bytes of what the spec says of it"
            return tasks.refused(str(errors.InvalidInputError(task.source, found, remedy)))
        question = (namespace, tasks.digest(self.ready.version, task, data))
        async with self._turns.turn(namespace):
            now = asyncio.get_running_loop().time()
            known = self.faults.get(*question)
            if known is None or now >= known.again_at:
                return await self._asked(task, data, question)
            return self._again(task, known, now)

    async def _asked(self, task: tasks.Task, data: bytes, question: _Question) -> tasks.Answer:
        try:
            running = await self._opened()
            text, report = await _exchanged(running, task, data)
        except (OSError, TimeoutError, ValueError) as error:
            await self.close()
            return self._fault(task, question, f"the process that reads is gone: {error!r}")
        except BaseException:
            # Given up in the middle: what comes on the socket now would be taken for the next answer.
            await self.close()
            raise
        answer = self._judged(task, len(data), text=text, report=report, question=question)
        _LOGGER.info("%s: %s", question[0], _told(task, answer, report))
        if answer.fault is not None:
            return self._fault(task, question, answer.fault)
        self.faults.forget(*question)
        return answer

    def _judged(
        self, task: tasks.Task, size: int, *, text: bytes, report: dict[str, Any], question: _Question
    ) -> tasks.Answer:
        """Return what a child's end and its words come to."""
        if report.get("fault"):
            return tasks.failed(report["fault"])
        ended = int(report["ended"])
        self.peak_kib = max(self.peak_kib, int(report["peak_kib"]))
        late = ended == -signal.SIGKILL and report["cpu"] >= zygote.LIMITS.cpu_seconds
        if late or ended == -signal.SIGXCPU:
            return tasks.too_large(task, size, f"{zygote.LIMITS.cpu_seconds} s of CPU time")
        if ended < 0 and ended != -signal.SIGKILL:
            return self._crashed(task, size, question, signal.Signals(-ended))
        if ended not in (0, zygote.OUT_OF_MEMORY):
            return tasks.failed(f"the reader ended with {ended}")
        try:
            return tasks.Answer.model_validate_json(text)
        except ValidationError as error:
            return tasks.failed(f"the reader's answer is none: {errors.shortened(str(error))}")

    def _crashed(self, task: tasks.Task, size: int, question: _Question, ended_by: signal.Signals) -> tasks.Answer:
        known = self._known(question)
        known.crashes += 1
        if known.crashes < _CRASHES:
            return tasks.failed(f"the reader was ended by {ended_by.name}")
        remedy = f"ends its reader by {ended_by.name}: {tasks.REMEDY}"
        return tasks.refused(str(errors.InvalidInputError(task.source, f"{size} bytes", remedy)))

    def _fault(self, task: tasks.Task, question: _Question, fault: str) -> tasks.Answer:
        """Remember it, and say when to come again; see `_again`."""
        known = self._known(question)
        known.count += 1
        delay = RETRY_SECONDS * 2 ** (known.count - 1) if known.count < MAX_FAULTS else PUT_OFF_SECONDS
        now = asyncio.get_running_loop().time()
        known.again_at = now + delay
        _LOGGER.warning("%s could not be read, %d times so far: %s", task.source, known.count, fault)
        return self._again(task, known, now)

    def _known(self, question: _Question) -> _Faults:
        found = self.faults.get(*question) or _Faults()
        self.faults.put(*question, found)
        return found

    def _again(self, task: tasks.Task, known: _Faults, now: float) -> tasks.Answer:
        """Return the fault, for now; raises TemporaryError while it is tried again soon."""
        message = f"{task.source} could not be read, {known.count} times so far, for no fault of its own"
        if known.count < MAX_FAULTS:
            raise errors.TemporaryError(message, delay_seconds=max(known.again_at - now, 0.0))
        return tasks.failed(f"{message}: it is tried again after {PUT_OFF_SECONDS:g} s; see the operator's log")

    async def _opened(self) -> _Running:
        running = self._running
        if running is None or running.process.poll() is not None:
            await self.close()
            running, self.ready = await _started(self._command)
            self._running = running
        return running


async def _started(command: tuple[str, ...]) -> tuple[_Running, tasks.Ready]:
    """Start the process that reads graphs; return when it is ready. Raises PermanentError, TemporaryError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        process = subprocess.Popen(  # noqa: ASYNC220 - our own program; it forks at once
            [*command, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            cwd="/",
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    running = _Running(process=process, control=ours)
    try:
        async with asyncio.timeout(START_SECONDS):
            text = await asyncio.get_running_loop().sock_recv(ours, zygote.MAX_REQUEST_BYTES)
        ready = tasks.Ready.model_validate_json(text)
    except (OSError, TimeoutError, ValueError) as error:
        running.end()
        message = f"the process that reads graphs does not start: {error!r}"
        raise errors.TemporaryError(message, delay_seconds=RETRY_SECONDS) from error
    except BaseException:
        running.end()
        raise
    if ready.error:
        running.end()
        raise errors.PermanentError(ready.error)
    return running, ready


async def _exchanged(running: _Running, task: tasks.Task, data: bytes) -> tuple[bytes, dict[str, Any]]:
    """Return what the child said, and how it ended. Raises OSError, TimeoutError, ValueError."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            ours.setblocking(False)
            socket.send_fds(running.control, [task.text()], [theirs.fileno()])
        async with asyncio.timeout(zygote.WALL_SECONDS + MARGIN_SECONDS):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                await loop.sock_sendall(ours, data)
                ours.shutdown(socket.SHUT_WR)
            text = await _received(loop, ours)
            report = await loop.sock_recv(running.control, zygote.MAX_REQUEST_BYTES)
    return text, dict(json.loads(report))


def _told(task: tasks.Task, answer: tasks.Answer, report: dict[str, Any]) -> str:
    """One reading in words, for the log."""
    word = "read" if answer.problem is None and answer.fault is None else "refused" if answer.problem else "not read"
    used = f"{report['cpu']:.2f} s of CPU, {report['peak_kib'] >> 10} MiB" if "cpu" in report else "no process"
    return f"{word} {task.source} ({used})"


async def _received(loop: asyncio.AbstractEventLoop, source: socket.socket) -> bytes:
    parts, size = [], 0
    try:
        while part := await loop.sock_recv(source, 65536):
            size += len(part)
            if size > zygote.MAX_ANSWER_BYTES:
                # Whoever writes on ends by that; it is no answer, and the next one is not held up.
                source.shutdown(socket.SHUT_RD)
                return b""
            parts.append(part)
    except ConnectionResetError:
        # It ended with bytes unread.
        return b""
    return b"".join(parts)
