"""The runtime of a training job: asks the gate before each group, publishes the job's position, times groups.

It knows nothing of torch: `hooks` calls it at the boundaries of modules.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cotenant_runtime import demand as demands
from cotenant_runtime import gate, layout
from cotenant_runtime.devices import Device
from cotenant_runtime.groups import Book, Key
from cotenant_runtime.segment import Writer

POLL_SECONDS: Final = 0.0005
QUANTUM_NS: Final = 1_000_000
"""Groups that are shorter together pass with one look at the segment."""
STEPS_KEPT: Final = 32
_PHASES: Final = {
    "Forward": layout.Phase.FORWARD,
    "Backward": layout.Phase.BACKWARD,
    "Optimizer": layout.Phase.OPTIMIZER,
}


class Clock(NamedTuple):
    """The monotonic clock, and how to wait."""

    now: Callable[[], int]
    sleep: Callable[[float], None]


REAL: Final = Clock(time.monotonic_ns, time.sleep)


class Trainer:
    """The training side of one process."""

    def __init__(self, writer: Writer, *, device: Device, book: Book, limits: gate.Limits, clock: Clock = REAL) -> None:
        """Publish through a slot, and read the others of its segment."""
        self.book = book
        self.device = device
        self.limits = limits
        self._writer = writer
        self._clock = clock
        self._gate = gate.initial(now_ns=clock.now(), limits=limits)
        self._phase = layout.Phase.IDLE
        self._step = self._group = 0
        self._neighbours: tuple[int, ...] = ()
        self._open: tuple[Key, Any] | None = None
        """The group that was let pass last, and the mark at its begin."""
        self._samples: deque[tuple[Key, Any, Any]] = deque(maxlen=4096)
        self._unlooked_ns = 0
        self._attached_ns, self._attached_at = 0, 0
        self._step_at = 0
        self._steps: deque[int] = deque(maxlen=STEPS_KEPT)
        self._alone: deque[int] = deque(maxlen=STEPS_KEPT)
        self._step_ns = self._alone_step_ns = self._busy_until_ns = 0
        self.refresh()

    @property
    def attached(self) -> bool:
        """Return whether a live job with an SLO shares the device."""
        return bool(self._neighbours)

    @property
    def waited_ns(self) -> int:
        """Return the time spent at the gate so far."""
        return self._gate.waited_ns

    def refresh(self) -> None:
        """Look through all slots for jobs with an SLO, and publish a heartbeat. Another thread may call this."""
        now = self._clock.now()
        found = tuple(
            index
            for index, slot in self._writer.segment.slots()
            if isinstance(slot.state, layout.Inference) and demands.is_alive(slot, now)
        )
        if found and not self._neighbours:
            self._attached_at = now
        elif self._neighbours:
            self._attached_ns += now - self._attached_at
            self._attached_at = now
        self._neighbours = found
        self._publish(now)

    def before(self, key: Key) -> None:
        """Return when the group may start."""
        group = self.book.group(key)
        timed = self.book.wants(key)
        last = self._open
        if not timed and last is None and not self._neighbours:
            return
        mark = self._close(timed=timed)
        waited = bool(self._neighbours) and self._pass(key, group)
        if waited and mark is not None:
            mark = self.device.mark()
        self._open = (key, mark)

    def step(self) -> None:
        """Note the end of a step."""
        self._close(timed=False)
        self._open = None
        self._settle_samples()
        now = self._clock.now()
        if self._step_at:
            (self._steps if self._neighbours else self._alone).append(now - self._step_at)
            self._step_ns = round(statistics.fmean(self._steps)) if self._steps else 0
            self._alone_step_ns = round(statistics.median(self._alone)) if self._alone else 0
        self._step_at = now
        self._phase, self._step, self._group = layout.Phase.IDLE, self._step + 1, 0
        self._publish(now)

    def end(self) -> None:
        """Empty the slot."""
        self._writer.clear()

    def _close(self, *, timed: bool) -> Any:
        """Note that the last group has been launched; return a mark where one is needed."""
        last = self._open
        if last is None:
            return self.device.mark() if timed else None
        key, begin = last
        if self._neighbours:
            self.device.launched(self.book.group(key).duration_ns)
        if begin is None and not timed:
            return None
        mark = self.device.mark()
        if begin is not None and self.book.wants(key):
            self._samples.append((key, begin, mark))
        return mark

    def _settle_samples(self) -> None:
        while self._samples:
            key, begin, end = self._samples[0]
            sample = self.device.sample(begin, end)
            if sample is None and begin is not None and end is not None:
                return
            self._samples.popleft()
            if sample is not None:
                self.book.time(key, sample)

    def _pass(self, key: Key, group: gate.Group) -> bool:
        """Wait until the gate lets the group pass; return whether it had to wait."""
        if group.fill <= self.limits.light_fill:
            return False
        self._unlooked_ns += group.duration_ns
        if self._unlooked_ns < QUANTUM_NS:
            return False
        self._unlooked_ns = 0
        waited = False
        while True:
            now = self._clock.now()
            launched = self.device.unfinished_ns()
            self._busy_until_ns = now + launched
            question = gate.Question(now, group, self._demand(now), launched)
            decision, self._gate = gate.decide(self._gate, question, self.limits)
            if not decision.wait:
                break
            if decision.reason is gate.Reason.LAUNCHED:
                self.device.settle(max(0, self.limits.delay_ns - group.duration_ns))
                continue
            if not waited:
                waited = True
                self._phase = layout.Phase.WAITING
                self._publish(now)
            self._clock.sleep(min(POLL_SECONDS, decision.at_most_ns / 1e9))
        self._phase, self._group = _PHASES.get(key.phase, layout.Phase.FORWARD), self._group + 1
        if waited:
            self._publish(now)
        return waited

    def _demand(self, now: int) -> demands.Demand:
        slots = (self._writer.segment.read(index) for index in self._neighbours)
        return demands.combined((slot for slot in slots if slot is not None), now)

    def _publish(self, now: int) -> None:
        attached = self._attached_ns + (now - self._attached_at if self._neighbours else 0)
        waited = self._gate.waited_ns
        state = layout.Training(
            phase=self._phase,
            step=self._step,
            group=self._group,
            busy_until_ns=self._busy_until_ns,
            waited_ns=waited,
            ran_ns=max(0, attached - waited),
            step_ns=self._step_ns,
            alone_step_ns=self._alone_step_ns,
        )
        self._writer.write(state, now_ns=now)
