"""The cores of this machine. Operators are over when the call returns, so nothing is launched ahead.

Heavy are operators that fill the cores. How many cores an operator fills is read from processor time: that of the whole
process, divided by that of the thread which called the operator. Both grow alike when other processes take the cores,
so neighbours do not falsify the ratio, as they would falsify a ratio to the wall clock.
"""

from __future__ import annotations

import os
import time
from typing import Final, NamedTuple

from cotenant_runtime import graphs, layout
from cotenant_runtime.groups import Sample

_ELEMENTS: Final = 32_768
"""at::internal::GRAIN_SIZE: a smaller operator runs on one core."""
_SHORTEST_NS: Final = 20_000
"""Shorter work cannot be told from the cost of the clocks: it counts as one core's."""


class Mark(NamedTuple):
    """Processor time of the process and of the calling thread."""

    process_ns: int
    thread_ns: int


class CoreSample(Sample):
    """A timing whose fill is always known."""

    fill: int


class CPU:
    """The cores that this process may use."""

    def __init__(self) -> None:
        cores = len(os.sched_getaffinity(0))
        self.name = f"cpu-{cores}"
        self.rates = graphs.Rates(
            units=cores,
            elements_per_unit=_ELEMENTS,
            flops_per_second=5e10 * cores,
            bytes_per_second=1e10,
            launch_seconds=5e-6,
        )

    def mark(self) -> Mark:
        """Return the processor time so far."""
        return Mark(time.process_time_ns(), time.thread_time_ns())

    def sample(self, begin: Mark, end: Mark) -> CoreSample:
        """Return the time of the calling thread, and the part of the cores that was filled."""
        thread, process = end.thread_ns - begin.thread_ns, end.process_ns - begin.process_ns
        if thread < _SHORTEST_NS:
            return CoreSample(max(thread, 0), layout.FULL_FILL // self.rates.units)
        fill = process * layout.FULL_FILL // (thread * self.rates.units)
        return CoreSample(thread, min(max(fill, 0), layout.FULL_FILL))

    def launched(self, duration_ns: int) -> None:
        """Nothing is launched ahead."""

    def unfinished_ns(self) -> int:
        """Nothing is launched ahead."""
        return 0

    def settle(self, at_most_ns: int) -> None:
        """Nothing is launched ahead."""
