"""The MPS control daemon of one GPU, as a child of this process: started, watched, ended, and started again.

One that an earlier life of this process has left is not ended while it answers: its clients would end with it. One
that hangs, whoever has started it, is replaced once nobody uses the GPU. Until then its clients go on as long as their
server lives, and no new one is let in.
"""

import asyncio
import contextlib
import enum
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.gpus.host import HostProcesses
from cotenant_deviceplugin.gpus.processes import Processes
from cotenant_deviceplugin.mps import clearing, layout, leaving, output, presence, signals, silence, starting
from cotenant_deviceplugin.mps.control import ANSWER_SECONDS, Control, NoDaemonError, NoProgramError
from cotenant_deviceplugin.mps.readiness import Readiness

LOOK_SECONDS: Final = 10.0
ASK_SECONDS: Final = 30.0
DRAIN_LOOK_SECONDS: Final = 2.0
BOUND_SECONDS: Final = 1.0
"""Between two looks at how much a daemon has said: a tenant can have it say 15 MB/s."""
FIRST_BACKOFF_SECONDS: Final = 1.0
LONGEST_BACKOFF_SECONDS: Final = 60.0
WELL_SECONDS: Final = 60.0
"""A daemon that has run for so long has not failed at once."""
QUIT_SECONDS: Final = 20.0

log = logging.getLogger(__name__)

Users = Callable[[GPUUID], Awaitable[frozenset[int]]]
"""PIDs of all that hold a GPU, servers included. Raises TemporaryError: nobody can say."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How daemons are run.

    Attributes:
        root: see `layout`.
        program: NVIDIA's control program, with whatever stands before it.
        environment: of the daemons, beside what names their GPU and folders.
        drain_seconds: how long clients may take to end on SIGTERM before their work is taken off the GPU; None: as long
            as they want.
        answer_seconds: for one question to a daemon.
        ask_seconds: between two questions to a daemon that answers; after one that it has not answered, the next comes
            after `look_seconds`.
        hang_questions: how many a daemon may leave unanswered in a row before it hangs, and for as long as it takes to
            wait for so many answers.
        quit_seconds: how long a daemon may take to quit before it gets SIGTERM, and then to end before it gets SIGKILL;
            for so long, too, one that does not answer is asked at the end for its clients.
        look_seconds: how often GPUs are looked for, and how often clients at the end, where that is oftener.
        output_bytes: of what a daemon says, which are kept.
        first_backoff_seconds: before the first new attempt at a daemon that ended at once.
        proc: where the host's /proc is.
    """

    root: Path
    program: Sequence[str] = layout.PROGRAM
    environment: Mapping[str, str]
    drain_seconds: float | None = None
    answer_seconds: float = ANSWER_SECONDS
    ask_seconds: float = ASK_SECONDS
    hang_questions: int = silence.QUESTIONS
    quit_seconds: float = QUIT_SECONDS
    look_seconds: float = LOOK_SECONDS
    first_backoff_seconds: float = FIRST_BACKOFF_SECONDS
    output_bytes: int = output.MAX_BYTES
    proc: Path = Path("/proc")


class _Heard(enum.Enum):
    """What came of one question."""

    ANSWER = enum.auto()
    SILENCE = enum.auto()
    NOBODY = enum.auto()
    UNASKED = enum.auto()
    """There is no program to ask with."""


class Daemon:
    """The control daemon of one GPU.

    Args:
        gpu: its UUID.
        settings: how it is run.
        stop: set by whoever wants the end.
        users: of the GPU.
        readiness: is told what is in the way.
    """

    def __init__(
        self, gpu: GPUUID, settings: Settings, stop: asyncio.Event, *, users: Users, readiness: Readiness
    ) -> None:
        self._gpu, self._settings, self._stop = gpu, settings, stop
        self._users, self._readiness = users, readiness
        self._processes = HostProcesses(Processes(proc=settings.proc), proc=settings.proc)
        self._pipe = layout.pipe(settings.root, gpu)
        self._output = layout.output(settings.root, gpu)
        self._control = Control(
            self._pipe,
            program=settings.program,
            environment=settings.environment,
            timeout_seconds=settings.answer_seconds,
        )
        self._backoff_seconds = settings.first_backoff_seconds
        self._hanging: int | None = None
        """The daemon of which was told that it hangs."""

    async def run(self) -> None:
        """Keep one running until told to stop; then end it once it has no clients."""
        bounding = asyncio.create_task(self._keep_bounded())
        try:
            while not self._stop.is_set():
                await self._outlast_another()
                if not self._stop.is_set():
                    await self._run_once()
        finally:
            bounding.cancel()

    async def clear(self, driver: clearing.Driver) -> None:
        """On a node that is given back, leave nothing; another's daemon, which may have clients, clears up itself."""
        if not await clearing.marked(self._settings.root):
            return
        try:
            another, holders = await self._control.answers(), await self._holders()
        except errors.TemporaryError as error:
            log.error("%s is not given back: %s", self._gpu, error)  # noqa: TRY400  # the system's words say it all
            return
        if holders:
            log.error("%s is not given back: it is held by pods %s", self._gpu, ", ".join(sorted(holders)))
        elif not another:
            patience_seconds = self._settings.quit_seconds
            await clearing.clear(self._settings.root, self._gpu, driver, patience_seconds=patience_seconds)

    async def _holders(self) -> frozenset[PodUID]:
        """Return the pods that live of those that held the GPU when the node was given back; else none.

        Raises TemporaryError: nobody can say.
        """
        noted = await clearing.holders(self._settings.root, self._gpu)
        return noted & await self._processes.alive() if noted else noted

    async def _outlast_another(self) -> None:
        """Wait for the end of a daemon of an earlier life: to end it would end its clients. One that hangs is ended."""
        told, known = False, silence.Silence()
        daemon: int | None = None
        while not self._stop.is_set():
            asked = asyncio.get_running_loop().time()
            heard = await self._ask()
            if heard in {_Heard.NOBODY, _Heard.UNASKED}:
                break  # without the program none can be started either: that says what is missing
            if not told:
                log.warning("%s: another control daemon is in %s; waiting for its end", self._gpu, self._pipe)
                told = True
            known = self._known(known, heard, asked)
            found = await asyncio.to_thread(presence.found, self._pipe)
            daemon = found or daemon
            if found is not None and await self._is_to_be_replaced(known, found):
                self._note_end(found)
                await signals.end(found, self._gpu, patience_seconds=0, quit_seconds=self._settings.quit_seconds)
                return
            await self._sleep(self._settings.look_seconds)
        if daemon is not None and not self._stop.is_set():
            await self._outlast_servers(daemon)

    async def _run_once(self) -> None:
        begun = asyncio.get_running_loop().time()
        self._readiness.tell(self._gpu, None)  # whatever was in the way has ended
        try:
            starting.prepare(self._settings.root, self._gpu)
            process = await starting.start(
                self._settings.root, self._gpu, program=self._settings.program, environment=self._settings.environment
            )
        except OSError as error:
            log.error("%s: no control daemon: %s", self._gpu, error)  # noqa: TRY400  # the system's words say it all
        else:
            log.info("%s: control daemon %d started", self._gpu, process.pid)
            await self._attend(process)
        if not self._stop.is_set():
            await self._back_off(asyncio.get_running_loop().time() - begun)

    async def _attend(self, process: asyncio.subprocess.Process) -> None:
        """Wait for its end, or end it: when told to stop, or because it hangs."""
        ended = asyncio.create_task(process.wait())
        stopping, hanging = asyncio.create_task(self._stop.wait()), asyncio.create_task(self._hangs(process.pid))
        await asyncio.wait((ended, stopping, hanging), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        hanging.cancel()
        if not ended.done() and hanging.done():
            hanging.result()
            self._note_end(process.pid)
            await self._end(process, ended, patience_seconds=0)
        elif not ended.done():
            drained = asyncio.create_task(self._drain(process.pid))
            await asyncio.wait((ended, drained), return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
            if not ended.done():
                self._note_end(process.pid)
                with contextlib.suppress(errors.TemporaryError):
                    await self._control.quit()
            await self._end(process, ended, patience_seconds=self._settings.quit_seconds)
        else:
            why = starting.why_ended(process.returncode or 0)
            log.error("%s: control daemon %d ended with code %s%s", self._gpu, process.pid, process.returncode, why)
            await self._outlast_servers(process.pid)

    async def _end(
        self, process: asyncio.subprocess.Process, ended: "asyncio.Task[int]", *, patience_seconds: float
    ) -> None:
        """End it, by more than words where it does not heed them: what it leaves behind holds the GPU."""
        quit_seconds = self._settings.quit_seconds
        await signals.end(process.pid, self._gpu, patience_seconds=patience_seconds, quit_seconds=quit_seconds)
        await ended
        log.info("%s: control daemon %d has ended", self._gpu, process.pid)

    def _note_end(self, daemon: int) -> None:
        """Say that this daemon's servers are ended in good order: an agent would take it for a fault of a client."""
        try:
            leaving.write(self._settings.root, self._gpu, leaving.members(daemon))
        except errors.TemporaryError as error:
            log.warning("%s: %s", self._gpu, error)

    async def _outlast_servers(self, daemon: int) -> None:
        """End the servers that have outlived their daemon once nobody else uses the GPU: no other one knows them.

        Told to stop, go on for as long as clients may take. While nobody can say who uses the GPU, no server is ended.
        """
        loop, last = asyncio.get_running_loop(), None
        while left := await asyncio.to_thread(leaving.members, daemon):
            if last is None and self._stop.is_set() and self._settings.drain_seconds is not None:
                last = loop.time() + self._settings.drain_seconds
            if await self._beside(daemon) == frozenset() or (last is not None and loop.time() >= last):
                self._note_end(daemon)
                await signals.end(daemon, self._gpu, patience_seconds=0, quit_seconds=self._settings.quit_seconds)
                return
            named = ", ".join(map(str, sorted(left)))
            waiting = f"servers {named} live on without control daemon {daemon}: they are replaced after their clients"
            self._readiness.tell(self._gpu, waiting)
            await asyncio.sleep(min(DRAIN_LOOK_SECONDS, self._settings.look_seconds))

    async def _hangs(self, daemon: int) -> None:
        """Return once a daemon that lives has hung for long enough to be replaced."""
        known = silence.Silence()
        while True:
            calm = known.since is None
            await asyncio.sleep(self._settings.ask_seconds if calm else self._settings.look_seconds)
            asked = asyncio.get_running_loop().time()
            heard = await self._ask()
            known = self._known(known, heard, asked)
            if await self._is_to_be_replaced(known, daemon):
                return

    async def _ask(self) -> _Heard:
        try:
            await self._control.servers()
        except NoProgramError:
            return _Heard.UNASKED
        except NoDaemonError:
            return _Heard.NOBODY
        except errors.TemporaryError as error:
            log.debug("%s: %s", self._gpu, error)
            return _Heard.SILENCE
        return _Heard.ANSWER

    def _known(self, before: silence.Silence, heard: _Heard, asked: float) -> silence.Silence:
        """Return what is known of a daemon that lives after one more question."""
        if heard is _Heard.UNASKED:
            return before
        if heard is not _Heard.ANSWER:
            return before.longer(asked)
        self._hanging = None
        self._readiness.tell(self._gpu, None)
        return silence.Silence()

    async def _is_to_be_replaced(self, known: silence.Silence, daemon: int) -> bool:
        """Return whether it hangs, and nobody uses the GPU."""
        now, questions = asyncio.get_running_loop().time(), self._settings.hang_questions
        if not known.hangs(now, questions=questions, seconds=questions * self._settings.answer_seconds):
            return False
        if self._hanging != daemon:
            self._hanging = daemon
            log.error("%s: control daemon %d %s", self._gpu, daemon, known.told(now))
        users = await self._beside(daemon)
        if users == frozenset():
            log.error("%s: control daemon %d hangs and nobody uses the GPU: it is replaced", self._gpu, daemon)
            return True
        who = "which nobody can say now" if users is None else f"which {', '.join(map(str, sorted(users)))} does"
        self._readiness.tell(
            self._gpu, f"control daemon {daemon} hangs: it is replaced once nobody uses the GPU, {who}"
        )
        return False

    async def _beside(self, daemon: int) -> frozenset[int] | None:
        """Who uses the GPU beside a daemon and its servers, which are in its session; None: nobody can say."""
        try:
            users = await self._users(self._gpu)
        except errors.TemporaryError as error:
            log.warning("%s: %s", self._gpu, error)
            return None
        return frozenset(pid for pid in users if signals.session(pid) != daemon)

    async def _drain(self, daemon: int) -> None:
        """Return once no server has a client, or their time is up and their work was taken off the GPU.

        On a node that is given back, a tenant that has no client now may still come back: it is waited for, too.
        Where the daemon does not answer, whoever uses the GPU counts as client; where nobody can say who does, nobody
        is waited for any more.
        """
        loop = asyncio.get_running_loop()
        allowed = self._settings.drain_seconds
        last = None if allowed is None else loop.time() + allowed
        told: frozenset[int] = frozenset()
        answered = loop.time()
        while (clients := await self._clients()) != {} or await self._is_held():
            waited = frozenset(clients or ())
            if clients is not None:
                answered = loop.time()
            elif loop.time() - answered >= self._settings.quit_seconds:
                waited = await self._beside(daemon) or frozenset()
                if not waited:
                    return
            if last is not None and loop.time() >= last:
                await self._terminate(clients or {})
                return
            if waited and waited != told:
                told = waited
                log.info("%s: waiting for the end of clients %s", self._gpu, sorted(waited))
            await asyncio.sleep(min(DRAIN_LOOK_SECONDS, self._settings.look_seconds))

    async def _is_held(self) -> bool:
        """Return whether a pod holds the GPU of a node that is given back, or nobody can say."""
        try:
            holders = await self._holders()
        except errors.TemporaryError as error:
            log.warning("%s: %s", self._gpu, error)
            return True
        if holders:
            self._readiness.tell(self._gpu, f"its daemon ends after pods {', '.join(sorted(holders))}")
        return bool(holders)

    async def _clients(self) -> dict[int, int] | None:
        """Servers by client; None: the daemon does not answer."""
        try:
            servers = await self._control.servers()
            return {client: server for server in servers for client in await self._control.clients(server)}
        except errors.TemporaryError as error:
            log.warning("%s: %s", self._gpu, error)
            return None

    async def _terminate(self, clients: Mapping[int, int]) -> None:
        for client, server in clients.items():
            log.warning("%s: client %d has not ended in time: its work is taken off the GPU", self._gpu, client)
            with contextlib.suppress(errors.TemporaryError):
                await self._control.terminate_client(server, client)

    async def _keep_bounded(self) -> None:
        """Let what it says not fill the disk, whatever else happens."""
        while True:
            await asyncio.sleep(min(BOUND_SECONDS, self._settings.look_seconds))
            try:
                output.bound(self._output, self._settings.output_bytes)
            except OSError as error:
                log.error("%s: %s: %s", self._gpu, self._output, error.strerror)  # noqa: TRY400  # that says it all

    async def _back_off(self, ran_seconds: float) -> None:
        if ran_seconds >= WELL_SECONDS:
            self._backoff_seconds = self._settings.first_backoff_seconds
        await self._sleep(self._backoff_seconds)
        self._backoff_seconds = min(2 * self._backoff_seconds, LONGEST_BACKOFF_SECONDS)

    async def _sleep(self, seconds: float) -> None:
        """Wait, not beyond the stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
