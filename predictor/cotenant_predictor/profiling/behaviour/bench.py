"""Where experiments are conducted: daemons in their own folders, tenants under them, and moments to wait for."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cotenant_predictor.profiling import mechanisms
from cotenant_predictor.profiling.engines import Device
from cotenant_predictor.profiling.mps import ControlDaemon, MpsUnavailableError
from cotenant_predictor.profiling.nvml import Gpu
from cotenant_predictor.profiling.pool import Worker
from cotenant_predictor.profiling.seats import Seat, TenantError

from .driver import NOT_MODELLED
from .findings import UnansweredError

_SUBJECT = (sys.executable, "-m", f"{__package__}.subject")
_POLL_SECONDS = 0.02
WAIT_SECONDS = 20.0
"""For a state that is to come."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Of one tenant's environment; None: the variable is not set. `variables`: beside these."""

    thread_percentage: int | None = None
    memory_mib: int | None = None
    priority: int | None = None

    def environment(self) -> dict[str, str]:
        """As variables."""
        found = {}
        if self.thread_percentage is not None:
            found[mechanisms.THREAD_PERCENTAGE] = str(self.thread_percentage)
        if self.memory_mib is not None:
            found[mechanisms.MEMORY_LIMIT] = f"0={self.memory_mib}M"
        if self.priority is not None:
            found[mechanisms.CLIENT_PRIORITY] = str(self.priority)
        return found


NO_LIMITS = Limits()


class Subject(Worker):
    """A tenant that is experimented with; see `subject`."""

    def ask(self, do: str, *, grace_seconds: float = 60.0, **more: Any) -> dict[str, Any]:
        """Return a command and its answer. Raises TenantError: the process ended, or said nothing in time."""
        self.send({"do": do, **more})
        return self.receive(time.monotonic() + grace_seconds)

    def open(self, *, grace_seconds: float = 60.0) -> dict[str, Any]:
        """Return what the driver lets it see, once it has a context.

        Raises:
            UnansweredError: the driver refused; the message holds its words.
        """
        facts: dict[str, Any] = answered(self.ask("open", grace_seconds=grace_seconds))["facts"]
        return facts


def answered(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the reply, if it is none of an error. Raises UnansweredError."""
    error = reply.get("error")
    if error:
        known = "" if error["name"] != NOT_MODELLED else "not modelled: "
        raise UnansweredError(f"{known}{error['function']}: {error['name']} ({error['code']}): {error['text']}")
    return reply


@dataclasses.dataclass(frozen=True)
class Conditions:
    """How long and how often. `product`: the program that asks with the node agent's own code; None: it is not here."""

    work_seconds: float
    kills: int
    product: Path | None


class Bench:
    """One GPU with its driver, for one experiment at a time."""

    def __init__(
        self, gpu: Gpu, folder: Path, *, device: Device, program: Sequence[str], conditions: Conditions
    ) -> None:
        self.gpu, self.folder, self.device, self.conditions = gpu, folder, device, conditions
        self.program, self._started = tuple(program), 0
        self._subjects: list[Subject] = []
        self._empty = folder / "nobody"
        self._empty.mkdir(exist_ok=True)

    @property
    def is_modelled(self) -> bool:
        """Whether there is no library behind it, not even one that stands in."""
        return self.device is Device.MODELLED

    @property
    def is_stand_in(self) -> bool:
        """Whether nothing behind it is a GPU."""
        return self.is_modelled or self.gpu.is_stand_in

    @contextlib.contextmanager
    def daemon(self, *arguments: str, before: Sequence[str] = ()) -> Iterator[ControlDaemon]:
        """Yield a control daemon with a server that is ACTIVE.

        At the end all subjects have ended, and then the daemon.
        """
        self._require_known(arguments)
        started = ControlDaemon.start(self.program, gpu_uuid=self.gpu.uuid, arguments=arguments, before=before)
        try:
            started.open_to_all()
            yield started
        finally:
            self.end_subjects()
            started.stop()

    def subject(
        self, daemon: ControlDaemon | None, limits: Limits = NO_LIMITS, *, prefix: Sequence[str] = ()
    ) -> Subject:
        """Return a process, up, without a context. `prefix`: what it is started through. Raises TenantError."""
        pipe = str(self._empty) if daemon is None else daemon.pipe_directory
        visible = self.gpu.uuid if daemon is None else "0"
        own = {mechanisms.PIPE_DIRECTORY: pipe, "CUDA_VISIBLE_DEVICES": visible, **limits.environment()}
        return self.subject_with(own, under_mps=daemon is not None, prefix=prefix)

    def subject_with(self, own: Mapping[str, str], *, under_mps: bool, prefix: Sequence[str] = ()) -> Subject:
        """One with these variables, whoever chose them. Raises TenantError."""
        self._started += 1
        made = Subject(
            Seat((f"subject-{self._started}",), under_mps),
            device=self.device.value,
            environment={**mechanisms.inherited(os.environ), **own},
            log=self.folder / f"subject-{self._started}.log",
            command=(*prefix, *_SUBJECT),
        )
        self._subjects.append(made)
        made.await_ready()
        return made

    def opened(self, daemon: ControlDaemon | None, limits: Limits = NO_LIMITS) -> Subject:
        """One with a context. Raises TenantError, UnansweredError."""
        made = self.subject(daemon, limits)
        made.open()
        return made

    def end_subjects(self) -> None:
        """All of them; no error is left over."""
        while self._subjects:
            self._subjects.pop().close()

    def end(self, subject: Subject) -> None:
        """One of them."""
        if subject in self._subjects:
            self._subjects.remove(subject)
        subject.close()

    def work(self, *subjects: Subject, seconds: float | None = None) -> list[dict[str, Any]]:
        """Return what each did while all worked; None: as long as the conditions say."""
        until = time.monotonic() + (self.conditions.work_seconds if seconds is None else seconds)
        for subject in subjects:
            subject.send({"do": "work", "until": until})
        return [subject.receive(until + 30.0) for subject in subjects]

    def _require_known(self, arguments: Sequence[str]) -> None:
        if arguments and self.is_modelled:
            raise UnansweredError(f"not modelled: {' '.join(arguments)}")


def seconds_until(condition: Callable[[], bool], *, timeout_seconds: float = WAIT_SECONDS) -> float | None:
    """Return how long it took; None: not in time."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > timeout_seconds:
            return None
        time.sleep(_POLL_SECONDS)
    return round(time.monotonic() - begun, 3)


def status(daemon: ControlDaemon) -> str:
    """Of the server, or why it is not told."""
    try:
        return daemon.status() or "no server"
    except MpsUnavailableError as error:
        return f"no answer: {error}"[:80]


def error_of(reply: Mapping[str, Any]) -> str | None:
    """Name and number of the driver's error in a reply."""
    error = reply.get("error")
    return f"{error['name']} ({error['code']})" if error else None


def received(subject: Subject, *, grace_seconds: float = 10.0) -> dict[str, Any]:
    """Return the next answer; one that does not come is told as an error of the process."""
    try:
        return subject.receive(time.monotonic() + grace_seconds)
    except TenantError as error:
        return {"error": {"name": error.outcome, "code": -1, "function": "process", "text": error.reason}}
