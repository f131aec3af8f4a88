"""One MPS control daemon for each GPU of the node, as children of one process that does nothing else.

It outlives the agent: that adopts the daemons through their pipes. Here nothing is asked of Kubernetes, no server is
started and none is ended while it has clients, unless somebody said how long they may take. On a node that is given
back nothing is left of a GPU whose daemon was the last to use it.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import Device
from cotenant_deviceplugin.mps import clearing, layout
from cotenant_deviceplugin.mps.control import ANSWER_SECONDS, Control, NoProgramError

ARGUMENTS: Final = ("-f", "-multiuser-server")
"""In the foreground; one server for the users of all containers, or another user's clients would wait for ever:
https://docs.nvidia.com/deploy/mps/latest/troubleshooting.html, "User ID mismatch without multi-user mode"."""
LOOK_SECONDS: Final = 10.0
DRAIN_LOOK_SECONDS: Final = 2.0
FIRST_BACKOFF_SECONDS: Final = 1.0
LONGEST_BACKOFF_SECONDS: Final = 60.0
WELL_SECONDS: Final = 60.0
"""A daemon that has run for so long has not failed at once."""
QUIT_SECONDS: Final = 20.0
_TRAVERSABLE: Final = 0o755

log = logging.getLogger(__name__)


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
        quit_seconds: how long a daemon may take to quit before it gets SIGTERM.
        look_seconds: how often GPUs are looked for, and how often clients at the end, where that is oftener.
        first_backoff_seconds: before the first new attempt at a daemon that ended at once.
    """

    root: Path
    program: Sequence[str] = layout.PROGRAM
    environment: Mapping[str, str]
    drain_seconds: float | None = None
    answer_seconds: float = ANSWER_SECONDS
    quit_seconds: float = QUIT_SECONDS
    look_seconds: float = LOOK_SECONDS
    first_backoff_seconds: float = FIRST_BACKOFF_SECONDS


GPUs = Callable[[], Awaitable[frozenset[GPUUID]]]
"""The GPUs that are to have a daemon. Raises TemporaryError while the driver is not there."""


async def run(settings: Settings, gpus: GPUs, stop: asyncio.Event, *, driver: clearing.Driver) -> None:
    """Run daemons until `stop` is set, and end them once their clients have ended.

    Args:
        settings: how.
        gpus: which.
        stop: set by whoever wants the end.
        driver: sets a compute mode back, at the end and on a node that is given back alone.
    """
    daemons: dict[GPUUID, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        while not stop.is_set():
            for gpu in sorted(await _found(gpus, frozenset(daemons)) - frozenset(daemons)):
                daemons[gpu] = group.create_task(_run(Daemon(gpu, settings, stop), driver))
            await _sleep(stop, settings.look_seconds)
    if await clearing.marked(settings.root):
        await clearing.finish(settings.root)


async def _run(daemon: "Daemon", driver: clearing.Driver) -> None:
    await daemon.run()
    await daemon.clear(driver)


class Daemon:
    """The control daemon of one GPU."""

    def __init__(self, gpu: GPUUID, settings: Settings, stop: asyncio.Event) -> None:
        self._gpu, self._settings, self._stop = gpu, settings, stop
        self._pipe, self._log = layout.pipe(settings.root, gpu), layout.log(settings.root, gpu)
        self._control = Control(
            self._pipe,
            program=settings.program,
            environment=settings.environment,
            timeout_seconds=settings.answer_seconds,
        )
        self._backoff_seconds = settings.first_backoff_seconds

    async def run(self) -> None:
        """Keep one running until told to stop; then end it once it has no clients."""
        while not self._stop.is_set():
            await self._outlast_another()
            if not self._stop.is_set():
                await self._run_once()

    async def clear(self, driver: clearing.Driver) -> None:
        """On a node that is given back, leave nothing; another's daemon, which may have clients, clears up itself."""
        if not await clearing.marked(self._settings.root):
            return
        try:
            another = await self._control.answers()
        except NoProgramError as error:
            log.error("%s is not given back: %s", self._gpu, error)  # noqa: TRY400  # the system's words say it all
            return
        if not another:
            await clearing.clear(self._settings.root, self._gpu, driver)

    async def _outlast_another(self) -> None:
        """Wait for the end of a daemon of an earlier life: to end it would end its clients."""
        told = False
        while await self._another() and not self._stop.is_set():
            if not told:
                log.warning("%s: another control daemon is in %s; waiting for its end", self._gpu, self._pipe)
                told = True
            await _sleep(self._stop, self._settings.look_seconds)

    async def _another(self) -> bool:
        try:
            return await self._control.answers()
        except NoProgramError:
            return False  # nor can one be started: that says what is missing

    async def _run_once(self) -> None:
        begun = asyncio.get_running_loop().time()
        try:
            self._prepare()
            process = await asyncio.create_subprocess_exec(
                *self._settings.program,
                *ARGUMENTS,
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # a signal for this process is not one for its daemons
            )
        except OSError as error:
            log.error("%s: no control daemon: %s", self._gpu, error)  # noqa: TRY400  # the system's words say it all
        else:
            log.info("%s: control daemon %d started", self._gpu, process.pid)
            await self._attend(process)
        if not self._stop.is_set():
            await self._back_off(asyncio.get_running_loop().time() - begun)

    async def _attend(self, process: asyncio.subprocess.Process) -> None:
        """Wait for its end, or end it."""
        ended = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if ended.done():
            log.error("%s: control daemon %d ended with code %s", self._gpu, process.pid, process.returncode)
            return
        drained = asyncio.create_task(self._drain())
        await asyncio.wait((ended, drained), return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()
        await self._quit(process, ended)

    async def _drain(self) -> None:
        """Return once no server has a client, or their time is up and their work was taken off the GPU."""
        loop = asyncio.get_running_loop()
        allowed = self._settings.drain_seconds
        last = None if allowed is None else loop.time() + allowed
        told: dict[int, int] = {}
        while (clients := await self._clients()) != {}:
            if last is not None and loop.time() >= last:
                await self._terminate(clients or {})
                return
            if clients is not None and clients != told:
                told = clients
                log.info("%s: waiting for the end of clients %s", self._gpu, sorted(clients))
            await asyncio.sleep(min(DRAIN_LOOK_SECONDS, self._settings.look_seconds))

    async def _quit(self, process: asyncio.subprocess.Process, ended: "asyncio.Task[int]") -> None:
        if not ended.done():
            with contextlib.suppress(errors.TemporaryError):
                await self._control.quit()
        done, _ = await asyncio.wait((ended,), timeout=self._settings.quit_seconds)
        if not done:
            log.warning("%s: control daemon %d does not quit; SIGTERM", self._gpu, process.pid)
            process.terminate()
        await ended
        log.info("%s: control daemon %d has ended", self._gpu, process.pid)

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

    def _prepare(self) -> None:
        """Folders that every user can traverse, and a pipe directory without what an earlier daemon left.

        The directory itself stays: running containers have it mounted, and must find the new daemon there.
        """
        for directory in (self._settings.root, self._pipe.parent, self._pipe, self._log):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(_TRAVERSABLE)
        for stale in self._pipe.iterdir():
            if stale.is_dir() and not stale.is_symlink():
                shutil.rmtree(stale)
            else:
                stale.unlink()

    def _environment(self) -> Mapping[str, str]:
        return {
            **self._settings.environment,
            layout.PIPE_DIRECTORY: str(self._pipe),
            layout.LOG_DIRECTORY: str(self._log),
            "CUDA_VISIBLE_DEVICES": self._gpu,
        }

    async def _back_off(self, ran_seconds: float) -> None:
        if ran_seconds >= WELL_SECONDS:
            self._backoff_seconds = self._settings.first_backoff_seconds
        await _sleep(self._stop, self._backoff_seconds)
        self._backoff_seconds = min(2 * self._backoff_seconds, LONGEST_BACKOFF_SECONDS)


class Lister(Protocol):
    """Knows the node's GPUs (`gpus.hardware.Hardware`)."""

    async def devices(self) -> tuple[Device, ...]:
        """All. Raises TemporaryError while the driver is not there."""


def shared(hardware: Lister) -> GPUs:
    """The GPUs that can be shared: those in MIG mode have no daemon. An excluded GPU has one, and nobody its pipe."""

    async def found() -> frozenset[GPUUID]:
        return frozenset(device.uuid for device in await hardware.devices() if not device.mig)

    return found


def inherited(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would limit the daemons' servers or hide GPUs from them."""
    found = os.environ if environment is None else environment
    return {name: value for name, value in found.items() if not name.startswith(("CUDA_", "NVIDIA_"))}


def stopping() -> asyncio.Event:
    """Set by SIGTERM and SIGINT, from now on."""
    event = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


async def _found(gpus: GPUs, known: frozenset[GPUUID]) -> frozenset[GPUUID]:
    try:
        return await gpus()
    except errors.TemporaryError as error:
        log.warning("waiting for the driver: %s", error)
        return known


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    """Wait, not beyond the stop."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
