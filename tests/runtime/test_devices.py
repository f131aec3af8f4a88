"""Devices: a GPU by a stand-in for torch whose events finish when a test says so, cores by real processor time."""

import os
from typing import Any

import pytest

from cotenant_runtime import layout
from cotenant_runtime.devices.cpu import CPU, Mark
from cotenant_runtime.devices.cuda import CUDA, MAX_MARKS

MS = 1_000_000


class Properties:
    """Of an H200."""

    name = "NVIDIA H200"
    multi_processor_count = 132
    max_threads_per_multi_processor = 2048


class Event:
    """An event of a stream that works at a tick a call."""

    def __init__(self, stream: "Stream") -> None:
        self.stream = stream
        self.place = 0

    def record(self) -> None:
        """Put the event behind what is launched."""
        self.stream.launched += 1
        self.place = self.stream.launched

    def query(self) -> bool:
        """Return whether the stream has come to the event."""
        return self.place <= self.stream.finished

    def synchronize(self) -> None:
        """Let the stream come to the event."""
        self.stream.finished = max(self.stream.finished, self.place)

    def elapsed_time(self, later: "Event") -> float:
        """Return the milliseconds between two events."""
        return 2.0 * (later.place - self.place)


class Stream:
    """What `torch.cuda` is to the device."""

    def __init__(self) -> None:
        self.launched = self.finished = 0
        self.capturing = False
        self.cuda = self

    def current_device(self) -> int:
        """Return the only one."""
        return 0

    def get_device_properties(self, _device: int) -> Properties:
        """Return the GPU's."""
        return Properties()

    def is_current_stream_capturing(self) -> bool:
        """Return whether a graph is captured."""
        return self.capturing

    def Event(self, **_: Any) -> Event:  # noqa: N802 - torch's name
        """Make an event."""
        return Event(self)


@pytest.fixture
def stream() -> Stream:
    return Stream()


def test_a_gpu_is_known_by_its_sms(stream: Stream) -> None:
    device = CUDA(stream)
    assert (device.name, device.rates.units, device.rates.elements_per_unit) == ("NVIDIA H200", 132, 2048)


def test_work_is_unfinished_until_its_event_has_passed(stream: Stream) -> None:
    device = CUDA(stream)
    for duration in (3 * MS, 4 * MS, 5 * MS):
        device.launched(duration)
    assert device.unfinished_ns() == 12 * MS
    stream.finished = 2
    assert device.unfinished_ns() == 5 * MS
    stream.finished = 3
    assert device.unfinished_ns() == 0


def test_settling_waits_for_the_oldest_work_alone(stream: Stream) -> None:
    device = CUDA(stream)
    for _ in range(5):
        device.launched(2 * MS)
    device.settle(5 * MS)
    assert stream.finished == 3
    assert device.unfinished_ns() == 4 * MS


def test_events_of_unfinished_work_are_bounded_and_their_time_is_kept(stream: Stream) -> None:
    device = CUDA(stream)
    for _ in range(3 * MAX_MARKS):
        device.launched(MS)
    assert device.unfinished_ns() == 3 * MAX_MARKS * MS
    assert len(device._marks) == MAX_MARKS


def test_a_timing_is_there_once_both_events_have_passed_and_says_nothing_of_the_sms(stream: Stream) -> None:
    device = CUDA(stream)
    begin, end = device.mark(), device.mark()
    assert device.sample(begin, end) is None
    stream.finished = 2
    assert device.sample(begin, end) == (2 * MS, None)


def test_while_a_graph_is_captured_no_event_is_recorded(stream: Stream) -> None:
    device = CUDA(stream)
    stream.capturing = True
    device.launched(MS)
    assert device.mark() is None
    assert device.sample(None, None) is None
    assert stream.launched == 0


def test_one_thread_fills_one_core() -> None:
    device = CPU()
    begin = device.mark()
    sum(range(2_000_000))
    sample = device.sample(begin, device.mark())
    assert sample.duration_ns > MS
    assert sample.fill == pytest.approx(layout.FULL_FILL / len(os.sched_getaffinity(0)), rel=0.5)


@pytest.mark.parametrize(
    ("process", "thread", "fill"),
    [(8 * MS, 4 * MS, 2000), (4 * MS, 4 * MS, 1000), (4 * MS, 10, 1000), (100 * MS, 4 * MS, 99_000)],
    ids=["two cores", "one core", "too short to tell", "never more than all"],
)
def test_the_fill_is_processor_time_of_the_process_to_that_of_the_thread(process: int, thread: int, fill: int) -> None:
    device = CPU()
    found = device.sample(Mark(0, 0), Mark(process, thread)).fill
    assert found == min(layout.FULL_FILL, fill // device.rates.units)
    assert device.unfinished_ns() == 0


def test_nothing_is_launched_ahead_on_cores() -> None:
    device = CPU()
    device.launched(MS)
    device.settle(0)
    assert device.unfinished_ns() == 0
