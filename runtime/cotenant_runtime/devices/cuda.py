"""A CUDA GPU. Work is launched ahead of its execution, and events in the stream tell what is finished."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from cotenant_runtime import graphs
from cotenant_runtime.groups import Sample

MAX_MARKS: Final = 256
"""Events kept of unfinished work; beyond them the oldest two are counted as one."""


class CUDA:
    """The GPU that torch uses in this process."""

    def __init__(self, torch: Any) -> None:
        """Read the GPU's properties. Peak rates are estimates by the number of SMs; timings replace them."""
        self._torch = torch
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        units = int(properties.multi_processor_count)
        self.name = str(properties.name)
        self.rates = graphs.Rates(
            units=units,
            elements_per_unit=int(getattr(properties, "max_threads_per_multi_processor", 2048)),
            flops_per_second=2e11 * units,
            bytes_per_second=1.5e10 * units,
            launch_seconds=5e-6,
        )
        self._marks: deque[tuple[Any, int]] = deque()

    def mark(self) -> Any:
        """Return an event in the current stream, or None while a graph is captured."""
        if self._torch.cuda.is_current_stream_capturing():
            return None
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def sample(self, begin: Any, end: Any) -> Sample | None:
        """Return the time between two events. Events cannot tell how many SMs were busy, so fill is not known."""
        if begin is None or end is None or not (begin.query() and end.query()):
            return None
        return Sample(max(0, round(1e6 * begin.elapsed_time(end))), None)

    def launched(self, duration_ns: int) -> None:
        """Put an event behind the work that was launched."""
        if self._torch.cuda.is_current_stream_capturing():
            return
        event = self._torch.cuda.Event()
        event.record()
        self._marks.append((event, duration_ns))
        if len(self._marks) > MAX_MARKS:
            _, first = self._marks.popleft()
            event, second = self._marks.popleft()
            self._marks.appendleft((event, first + second))

    def unfinished_ns(self) -> int:
        """Return the predicted time of the work behind which no event has passed."""
        while self._marks and self._marks[0][0].query():
            self._marks.popleft()
        return sum(duration for _, duration in self._marks)

    def settle(self, at_most_ns: int) -> None:
        """Wait for the oldest work until the rest is short enough."""
        left = self.unfinished_ns()
        while self._marks and left > at_most_ns:
            event, duration = self._marks.popleft()
            event.synchronize()
            left -= duration
