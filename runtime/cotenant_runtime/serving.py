"""The side of the job with an SLO: it publishes which requests are open, and until when they must be answered.

    from cotenant_runtime.serving import serving

    with serving(deadline=0.1) as request:        # seconds from now
        tokens = preprocess(text)
        answer = model(tokens)
        request.phase(Phase.LIGHT)                # the rest needs little of the device
        return postprocess(answer)

Without the environment of `settings` this does nothing.
"""

from __future__ import annotations

import logging
import math
import os
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from cotenant_runtime import layout, settings
from cotenant_runtime.devices.cpu import CPU
from cotenant_runtime.heartbeat import Heartbeat
from cotenant_runtime.layout import Phase
from cotenant_runtime.segment import Segment, SegmentError, Writer

__all__ = ["Phase", "Request", "Server", "latest_start", "serving"]

SERVICES_KEPT: Final = 64
SHORTEST_NS: Final = 1_000_000
"""Processor time of a request below which it says nothing of the cores that a request fills."""
_LOG: Final = logging.getLogger(__name__)


def latest_start(deadlines: Sequence[int], service_ns: int, *, now_ns: int) -> int:
    """Return the time from which the device must serve nothing else, so that each deadline is met.

    Requests are answered one after the other, earliest deadline first: min over k of deadline_k - (k + 1) * service.
    While no service time is known, that is now.
    """
    if not service_ns:
        return now_ns
    return min(deadline - (place + 1) * service_ns for place, deadline in enumerate(sorted(deadlines)))


class Request:
    """One request that is not answered yet."""

    def __init__(self, server: Server | None, *, arrival_ns: int, deadline_ns: int) -> None:
        self.arrival_ns = arrival_ns
        self.deadline_ns = deadline_ns
        self.current = Phase.HEAVY
        self._server = server

    def phase(self, phase: Phase) -> None:
        """Publish what the request does from now on: `Phase.HEAVY`, or `Phase.LIGHT` with little on the device."""
        self.current = Phase.LIGHT if phase is Phase.LIGHT else Phase.HEAVY
        if self._server is not None:
            self._server.publish()


class Server:
    """The requests of one process."""

    def __init__(
        self, writer: Writer, *, clock: Callable[[], int] = time.monotonic_ns, meter: CPU | None = None
    ) -> None:
        """Publish through a slot. `meter` reads how many cores a request fills, where it is served by the CPU."""
        self._writer = writer
        self._clock = clock
        self._meter = meter
        self._lock = threading.Lock()
        self._open: list[Request] = []
        self._services: deque[int] = deque(maxlen=SERVICES_KEPT)
        self._fills: deque[int] = deque(maxlen=SERVICES_KEPT)
        self._service_ns = self._last_end_ns = 0
        self._requests = self._met = 0
        self.publish()

    def begin(self, *, deadline_seconds: float, arrived_seconds: float | None = None) -> Request:
        """Open a request. Its deadline counts from its arrival: now, or an earlier time of the monotonic clock."""
        now = self._clock()
        early = arrived_seconds is not None and math.isfinite(arrived_seconds)
        arrival = min(now, round(1e9 * arrived_seconds)) if early and arrived_seconds is not None else now
        seconds = deadline_seconds if math.isfinite(deadline_seconds) else 0.0
        request = Request(self, arrival_ns=arrival, deadline_ns=arrival + round(1e9 * max(0.0, seconds)))
        with self._lock:
            self._open.append(request)
            self._publish(now)
        return request

    def end(self, request: Request, *, answered: bool = True) -> None:
        """Close a request; one that was not answered counts as late."""
        now = self._clock()
        with self._lock:
            self._open.remove(request)
            self._requests += 1
            self._met += answered and now <= request.deadline_ns
            self._publish(now)

    @contextmanager
    def computing(self, request: Request) -> Iterator[Request]:
        """Measure the block as the service of a request: all that follows its time in a queue."""
        begin = self._clock()
        mark = self._meter.mark() if self._meter is not None else None
        yield request
        with self._lock:
            # What it waited behind others is no service time.
            self._services.append(self._clock() - max(begin, self._last_end_ns))
            self._last_end_ns = self._clock()
            self._service_ns = _ninth_decile(self._services)
            if self._meter is not None and mark is not None and len(self._open) == 1:
                sample = self._meter.sample(mark, self._meter.mark())
                if sample.fill and sample.duration_ns >= SHORTEST_NS:
                    self._fills.append(sample.fill)

    @contextmanager
    def serving(self, *, deadline: float, arrived: float | None = None) -> Iterator[Request]:
        """Keep a request open while the block runs."""
        request = self.begin(deadline_seconds=deadline, arrived_seconds=arrived)
        answered = False
        try:
            with self.computing(request):
                yield request
            answered = True
        finally:
            self.end(request, answered=answered)

    def publish(self) -> None:
        """Write what is open, with a heartbeat."""
        with self._lock:
            self._publish(self._clock())

    def close(self) -> None:
        """Empty the slot."""
        self._writer.clear()

    def _publish(self, now: int) -> None:
        heavy = [one for one in self._open if one.current is Phase.HEAVY]
        phase = Phase.HEAVY if heavy else Phase.LIGHT if self._open else Phase.IDLE
        state = layout.Inference(
            phase=phase,
            fill=round(statistics.median(self._fills)) if self._fills else 0,
            arrival_ns=min((one.arrival_ns for one in self._open), default=0),
            deadline_ns=min((one.deadline_ns for one in self._open), default=0),
            latest_start_ns=self._latest_start([one.deadline_ns for one in heavy], now),
            pending=len(self._open),
            service_ns=self._service_ns,
            requests=self._requests,
            met=self._met,
        )
        self._writer.write(state, now_ns=now)

    def _latest_start(self, deadlines: list[int], now: int) -> int:
        return latest_start(deadlines, self._service_ns, now_ns=now) if deadlines else 0


def _ninth_decile(values: Sequence[int]) -> int:
    """Return the value that nine of ten do not exceed; 0 for a single value, which was the warm-up."""
    ordered = sorted(values)
    return ordered[(9 * len(ordered) - 1) // 10] if len(ordered) > 1 else 0


class _Process:
    """The server of this process, made when it is first needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.server: Server | None = None
        self.tried = False
        self.pid = 0

    def get(self) -> Server | None:
        """Return the server; None where the environment asks for none, or the segment cannot be used."""
        pid = os.getpid()
        if self.tried and self.pid == pid:
            return self.server
        with self.lock:
            if not self.tried or self.pid != pid:
                self.tried, self.pid = True, pid
                self.server = _start()
            return self.server


def _start() -> Server | None:
    try:
        wanted = settings.read(os.environ)
        if wanted is None or wanted.role is not settings.Role.INFERENCE:
            return None
        server = Server(Segment(wanted.segment).claim(wanted.slot), meter=CPU())
    except (settings.SettingsError, SegmentError, OSError) as error:
        _LOG.warning("space-time sharing is off, requests are served as before: %s", error)
        return None
    Heartbeat(server.publish).start()
    return server


_PROCESS: Final = _Process()


def server() -> Server | None:
    """Return the server of this process, or None where the job does not share in space and time."""
    return _PROCESS.get()


@contextmanager
def serving(*, deadline: float, arrived: float | None = None) -> Iterator[Request]:
    """Keep a request open while the block runs; `deadline` is in seconds from the arrival.

    `arrived` is the time of arrival by `time.monotonic()`, where a request has waited in a queue.
    """
    current = server()
    if current is None:
        yield Request(None, arrival_ns=0, deadline_ns=0)
        return
    with current.serving(deadline=deadline, arrived=arrived) as request:
        yield request
