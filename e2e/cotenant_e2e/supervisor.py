"""Starts, watches and stops the processes of one cluster, and remembers them in its folder."""

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant_e2e import processes, waiting
from cotenant_e2e import state as states
from cotenant_e2e.components import Component
from cotenant_e2e.processes import Process
from cotenant_e2e.state import Record, State

READY_SECONDS = 120
MARK = "COTENANT_E2E_CLUSTER"
"""In the environment of every process: the cluster's folder. So none is lost when its starter dies."""


@dataclass(frozen=True)
class Status:
    """One process. `rss_mib`: resident memory; 0 when it has ended."""

    name: str
    pid: int
    alive: bool
    rss_mib: int


class Supervisor:
    """Every process of one cluster. Threads may share it. `answers`: whether a URL answers with 200."""

    def __init__(self, state: State, answers: Callable[[str], bool]) -> None:
        self._state, self._answers = state, answers
        self._lock = threading.Lock()

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return log_of(self._state.settings.directory, name)

    def process(self, name: str) -> Process:
        """Return the process of this name, running or not."""
        return self._state.record(name).process

    def argv(self, name: str) -> tuple[str, ...]:
        """Return the command line of the process of this name."""
        return self._state.record(name).argv

    def start(self, component: Component, environment: Mapping[str, str] | None = None) -> Process:
        """Start it without waiting. `environment`: in addition to this process's own."""
        added = dict(environment or {})
        mark = {MARK: str(self._state.settings.directory)}
        # Nothing may reach another cluster because of where the starter's shell points.
        inherited = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        with self._lock:
            process = processes.start(
                component.argv, log=self.log(component.name), environment=inherited | added | mark
            )
            record = Record(component.name, process, component.argv, added, component.ready)
            self._save(self._state.with_record(record))
        return process

    def wait(self, name: str, seconds: float = READY_SECONDS) -> None:
        """Return when it is ready.

        Raises:
            NotReadyError: it ended, or is not ready in time; the message has its log's last line.
        """
        record = self._state.record(name)

        def ready() -> bool:
            if not record.process.alive():
                raise waiting.NotReadyError(f"{name} ended; {self._explanation(name)}")
            return not record.ready or self._answers(record.ready)

        try:
            waiting.wait_until(ready, f"{name} ready", seconds)
        except waiting.NotReadyError as error:
            if record.process.alive():
                raise waiting.NotReadyError(f"{error}; {self._explanation(name)}") from error
            raise

    def kill(self, name: str) -> None:
        """SIGKILL, as a crash would end it; `restart` brings it back."""
        self.process(name).kill()

    def pause(self, name: str) -> None:
        """SIGSTOP: it neither works nor ends, and its connections stay open, until `resume`."""
        self.process(name).signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """SIGCONT: it goes on where it stood."""
        self.process(name).signal(signal.SIGCONT)

    def restart(self, name: str, seconds: float = READY_SECONDS) -> Process:
        """Stop it, unless it has ended, start it as before and wait until it is ready."""
        record = self._state.record(name)
        record.process.stop()
        process = self.start(Component(name, record.argv, record.ready), record.environment)
        self.wait(name, seconds)
        return process

    def stop(self, name: str) -> None:
        """Stop it and forget it."""
        self.process(name).stop()
        with self._lock:
            self._save(self._state.without_record(name))

    def status(self) -> list[Status]:
        """Every process, in the order of their start."""
        return [
            Status(record.name, record.process.pid, record.process.alive(), record.process.rss_mib())
            for record in self._state.records
        ]

    def _save(self, state: State) -> None:
        self._state = state
        states.write(state)

    def _explanation(self, name: str) -> str:
        log = self.log(name)
        return f"{log} ends with: {processes.last_line(log)}"


def stop_all(directory: Path) -> None:
    """Stop every process of the cluster in this folder: those it remembers in reverse order, then any it does not."""
    for process in all_of(directory):
        process.stop()


def all_of(directory: Path) -> list[Process]:
    """Every process of the cluster in this folder, the last that started first; some may have ended."""
    state = states.read(directory)
    known = [record.process for record in reversed(state.records if state else ())]
    return [*known, *(process for process in processes.with_variable(MARK, str(directory)) if process not in known)]


def log_of(directory: Path, name: str) -> Path:
    """Return the log file of a process."""
    return directory / "logs" / f"{name}.log"
