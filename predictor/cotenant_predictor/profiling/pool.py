"""The tenants' processes: started ahead, kept while they may be needed again, and never more in memory than fits.

Starting a process with torch takes longer than most measurements; a tenant that waits between runs uses nothing but
memory. Which are let go is decided here by what was used last; a run that must have the GPU for itself says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from .catalog import Job
from .seats import Seat, TenantError

MEMORY_SHARE = 0.85
"""Of the GPU's memory that waiting tenants may hold."""
START_SECONDS = 120.0
LOAD_SECONDS = 90.0
_QUIT_SECONDS = 5.0
_LOG_TAIL = 256


class Worker:
    """A process that runs jobs; see `worker`. `command`: another program that answers as that one does."""

    def __init__(
        self, seat: Seat, *, device: str, environment: Mapping[str, str], log: Path, command: Sequence[str] = ()
    ) -> None:
        self.seat, self._log, self._rest = seat, log, b""
        self.overhead_mib, self.reserved_mib, self.is_loaded, self._is_ready, self._is_hung = 0, 0, False, False, False
        complete = [*(command or (sys.executable, "-m", f"{__package__}.worker")), "--device", device]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                complete, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=dict(environment)
            )

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def memory_mib(self) -> int:
        """What it holds of the GPU's memory: the allocator's peak and the driver's context."""
        return self.reserved_mib + self.overhead_mib

    def load(self, jobs: Sequence[Job], used_mib: Callable[[], int]) -> None:
        """Build the jobs; the context's share is what the GPU lost beyond what the allocator holds.

        Raises:
            TenantError: as the process says, or it ended or is too slow.
        """
        self.await_ready()
        before = used_mib()
        self.send({"do": "load", "jobs": [job.to_object() for job in jobs]})
        self.receive(time.monotonic() + LOAD_SECONDS)
        self.overhead_mib = max(0, used_mib() - before - self.reserved_mib)
        self.is_loaded = True

    def send(self, command: Mapping[str, Any]) -> None:
        """Give a command; a process that has ended is noticed by `receive`."""
        if self._process.stdin is None:
            raise TenantError("Crashed", "the process has no input", self.seat)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()

    def receive(self, deadline: float) -> dict[str, Any]:
        """Return the next answer, until a moment of the monotonic clock.

        Raises:
            TenantError: the answer is a failure, the process ended, or nothing came in time.
        """
        reply = self._line(deadline)
        self.reserved_mib = max(self.reserved_mib, int(reply.get("reservedMiB", 0)))
        if reply["outcome"] != "Ok":
            raise TenantError(reply["outcome"], reply.get("error", ""), self.seat)
        return reply

    def kill(self) -> None:
        """End it by SIGKILL, whatever it does."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ask it to end, then make it; one that did not answer is not asked."""
        if not self._is_hung:
            self.send({"do": "quit"})
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(0 if self._is_hung else _QUIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.unlink(missing_ok=True)

    def await_ready(self) -> None:
        """Until the process takes commands. Raises TenantError."""
        if not self._is_ready:
            self.receive(time.monotonic() + START_SECONDS)
            self._is_ready = True

    def _line(self, deadline: float) -> dict[str, Any]:
        if self._process.stdout is None:
            raise TenantError("Crashed", "the process has no output", self.seat)
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self._is_hung = True
                raise TenantError("Timeout", "no answer in time", self.seat)
            data = os.read(descriptor, 1 << 20)
            if not data:
                raise TenantError("Crashed", self._last_words(), self.seat)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _last_words(self) -> str:
        code = self._process.wait(_QUIT_SECONDS)
        return f"ended with {code}: {self._log.read_text(errors='replace').strip()[-_LOG_TAIL + 32 :]}"


class Pool:
    """Workers by seat, those used last at the end. `start`: makes a worker for a seat."""

    def __init__(
        self,
        start: Callable[[Seat], Worker],
        *,
        jobs: Mapping[str, Job],
        used_mib: Callable[[], int],
        memory_mib: int,
        max_workers: int,
    ) -> None:
        self._start, self._jobs, self._used_mib = start, jobs, used_mib
        self._memory_mib, self._max_workers = memory_mib, max_workers
        self._workers: dict[Seat, Worker] = {}

    def prefetch(self, seats: Sequence[Seat]) -> None:
        """Start processes that will be needed soon, as far as there is room, and wait until all are up.

        They hold no GPU memory yet. Starting takes processor time, which must not fall into a measurement.
        """
        started = []
        for seat in seats:
            if len(self._workers) < self._max_workers and seat not in self._workers:
                self._workers[seat] = self._start(seat)
                started.append(self._workers[seat])
        for worker in started:
            try:
                worker.await_ready()
            except TenantError:
                self.drop(worker)  # it is started again when its turn comes, and fails there

    def has(self, seats: Sequence[Seat]) -> bool:
        """Return whether all of these have their process."""
        return all(seat in self._workers for seat in seats)

    def seated(
        self, seats: Sequence[Seat], *, needed_mib: int, keep: Callable[[Seat], bool]
    ) -> list[Worker | TenantError]:
        """Return a loaded worker for each of these seats, or why it cannot be loaded: then whoever called ends it.

        Others that `keep` refuses are ended, and as many as memory needs.
        """
        for seat in [seat for seat, worker in self._workers.items() if worker.is_loaded and not keep(seat)]:
            if seat not in seats:
                self.drop(self._workers[seat])
        found: list[Worker | TenantError] = []
        for seat in seats:
            self._make_room(seats, needed_mib)
            worker = self._workers.pop(seat, None) or self._start(seat)
            self._workers[seat] = worker
            try:
                found.append(self._loaded(worker, wanted=seats))
            except TenantError as error:
                found.append(error)
        return found

    def count(self, among: Callable[[Seat], bool]) -> int:
        """Count the loaded tenants of these seats."""
        return sum(worker.is_loaded and among(seat) for seat, worker in self._workers.items())

    def drop(self, worker: Worker) -> None:
        """End one."""
        self._workers.pop(worker.seat, None)
        worker.close()

    def pid(self, seat: Seat) -> int | None:
        """Return the process of this seat; none if it was ended."""
        worker = self._workers.get(seat)
        return None if worker is None else worker.pid

    def end(self, seat: Seat) -> None:
        """End the process of this seat, if there is one."""
        if seat in self._workers:
            self.drop(self._workers[seat])

    def close(self) -> None:
        """End all."""
        for worker in list(self._workers.values()):
            self.drop(worker)

    def _loaded(self, worker: Worker, *, wanted: Sequence[Seat]) -> Worker:
        """Out of memory beside tenants that only wait says nothing of the job: they go, and it is loaded again."""
        if worker.is_loaded:
            return worker
        jobs = [self._jobs[name] for name in worker.seat.jobs]
        try:
            worker.load(jobs, self._used_mib)
        except TenantError as error:
            waiting = [other for seat, other in self._workers.items() if seat not in wanted and other.is_loaded]
            if error.outcome != "OutOfMemory" or worker.seat.memory_limit_mib is not None or not waiting:
                raise
            for other in (*waiting, worker):
                self.drop(other)
            worker = self._workers[worker.seat] = self._start(worker.seat)
            worker.load(jobs, self._used_mib)
        return worker

    def _make_room(self, wanted: Collection[Seat], needed_mib: int) -> None:
        others = [worker for seat, worker in self._workers.items() if seat not in wanted]
        missing = [seat for seat in wanted if seat not in self._workers]
        for worker in others:
            held = sum(other.memory_mib for other in self._workers.values())
            full = held + needed_mib > MEMORY_SHARE * self._memory_mib
            many = len(self._workers) + len(missing) > self._max_workers
            if (full and worker.is_loaded) or many:
                self.drop(worker)
