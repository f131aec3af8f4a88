"""Runs jobs with torch, on a GPU or, to try things out, on the processor.

Steps are not awaited one by one: at most two are in flight, so that the processor runs ahead as it does in a
training loop, and their ends are read from events of the GPU.
"""

from __future__ import annotations

import collections
import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from . import kernels
from .catalog import Job
from .engines import OutOfMemoryError, Report

IN_FLIGHT = 2
WARM_UP_STEPS = 3
_MEMORY_SIGNS = ("out of memory", "ALLOC_FAILED")
_LOWER = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Marks(NamedTuple):
    """Points of a step: the copy of its input begins and ends, the step ends."""

    copy_begin: Any
    copy_end: Any
    end: Any


class HostTimeline:
    """Points in time where work is done when it returns."""

    def mark(self) -> float:
        """Now."""
        return time.monotonic()

    def seconds(self, mark: float) -> float:
        """Return the point, on the monotonic clock."""
        return mark


class CudaTimeline:
    """Points in the current stream, read on the monotonic clock once they are reached."""

    def __init__(self) -> None:
        self._base = self.mark()
        self._base.synchronize()
        self._base_seconds = time.monotonic()

    def mark(self) -> Any:
        """Return a point behind everything launched so far."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, mark: Any) -> float:
        """Wait until the point is reached; return when that was."""
        mark.synchronize()
        return self._base_seconds + float(self._base.elapsed_time(mark)) / 1000


class Tenant:
    """One job, its input in (pinned) memory of the host, and the stream it runs in."""

    def __init__(self, job: Job, device: torch.device, stream: Any) -> None:
        self._job, self._device, self.stream = job, device, stream
        with torch.device(device):
            model, inputs = job.build()
        self.model = model.train(job.training)
        self._host = {name: _pinned(tensor, device) for name, tensor in inputs.items()}
        self._optimizer = optimizer(job.optimizer, model) if job.training else None
        if device.type == "cuda":
            torch.cuda.synchronize()  # weights are made in the default stream, steps run in another

    def step(self, timeline: Any) -> tuple[Marks, Any]:
        """Launch one step; its points, and the output."""
        copy_begin = timeline.mark()
        inputs = {name: tensor.to(self._device, non_blocking=True) for name, tensor in self._host.items()}
        copy_end = timeline.mark()
        with torch.set_grad_enabled(self._job.training), self._casts():
            output = self.model(**inputs)
        if self._optimizer is not None:
            output["loss"].backward()
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        return Marks(copy_begin, copy_end, timeline.mark()), output

    def _casts(self) -> Any:
        dtype = _LOWER.get(self._job.precision)
        return contextlib.nullcontext() if dtype is None else torch.autocast(self._device.type, dtype)


class TorchEngine:
    """See `engines.Engine`."""

    def __init__(self, device: str, client: object = None) -> None:
        """`client`: what keeps this process known to a stand-in for MPS; CUDA does that itself."""
        self._device, self._client = torch.device(device), client
        self._tenants: list[Tenant] = []

    def load(self, jobs: Sequence[Job]) -> None:
        """Build the jobs and run some steps."""
        precisions = {job.precision == "tf32" for job in jobs}
        if len(precisions) > 1:
            raise ValueError("jobs of one process must all use tf32, or none: it is a setting of the process")
        with explained():
            if self._device.type == "cuda":
                torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precisions == {True}
            for index, job in enumerate(jobs):
                self._tenants.append(Tenant(job, self._device, self._stream(index, len(jobs))))
                with self._running(index) as timeline:
                    for _ in range(WARM_UP_STEPS):
                        timeline.seconds(self._tenants[index].step(timeline)[0].end)

    def reserved_mib(self) -> int:
        """Return the allocator's peak, in MiB rounded up; 0 on the processor."""
        return -(-torch.cuda.max_memory_reserved() // 2**20) if self._device.type == "cuda" else 0

    def steps(self, index: int, *, start_at: float, until: float | None, stop: threading.Event) -> Report:
        """Run steps until a time or until told to stop."""
        report, pending, tenant = Report(), collections.deque[Marks](), self._tenants[index]
        with explained(), self._running(index) as timeline:
            _sleep_until(start_at, stop)
            while not stop.is_set() and (until is None or time.monotonic() < until):
                pending.append(tenant.step(timeline)[0])
                if len(pending) > IN_FLIGHT:
                    _record(report, pending.popleft(), timeline)
            while pending:
                _record(report, pending.popleft(), timeline)
        return report

    def requests(
        self, index: int, *, start_at: float, arrivals: Sequence[float] | int, stop: threading.Event
    ) -> Report:
        """Answer requests one by one; an answer is there when its output is in memory of the host."""
        report, tenant = Report(), self._tenants[index]
        with explained(), self._running(index) as timeline:
            _sleep_until(start_at, stop)
            for number in range(arrivals if isinstance(arrivals, int) else len(arrivals)):
                arrival = time.monotonic() if isinstance(arrivals, int) else start_at + arrivals[number]
                _sleep_until(arrival, stop)
                if stop.is_set():
                    break
                begin = time.monotonic()
                marks, output = tenant.step(timeline)
                output.to("cpu")
                end = time.monotonic()
                report.spans.append((begin, end))
                report.turnaround_milliseconds.append(1000 * (end - arrival))
                copied = timeline.seconds(marks.copy_end) - timeline.seconds(marks.copy_begin)
                report.host_to_device_milliseconds.append(1000 * copied)
        return report

    def profile(self) -> Mapping[str, Any]:
        """Return the kernels of one step of the first job, with launch shapes, from a trace of torch.profiler."""
        if self._device.type != "cuda":
            return {"kernels": [], "reasons": {"kernels": "not measured on a GPU"}}
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with explained(), self._running(0) as timeline, tempfile.TemporaryDirectory() as folder:
            with torch.profiler.profile(activities=activities) as profiler:
                timeline.seconds(self._tenants[0].step(timeline)[0].end)
                torch.cuda.synchronize()
            path = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(path))
            rows = kernels.launches(json.loads(path.read_text(encoding="utf-8")))
        shown = [row.to_object() for row in rows[: kernels.MAX_ROWS]]
        reasons = {} if rows else {"kernels": "torch.profiler saw no kernel: CUPTI may not be permitted"}
        return {"kernels": shown, **kernels.shares(rows, device_limits()), "reasons": reasons}

    def _stream(self, index: int, count: int) -> Any:
        if self._device.type != "cuda":
            return None
        return torch.cuda.Stream(priority=-1 if index == 0 and count > 1 else 0)

    @contextlib.contextmanager
    def _running(self, index: int) -> Iterator[Any]:
        stream = self._tenants[index].stream
        if stream is None:
            yield HostTimeline()
            return
        with torch.cuda.stream(stream):
            yield CudaTimeline()
            stream.synchronize()


def device_limits() -> kernels.Limits:
    """Return what bounds the blocks of the current GPU's multiprocessors."""
    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    named = {
        "threads_per_sm": "max_threads_per_multi_processor",
        "registers_per_sm": "regs_per_multiprocessor",
        "shared_bytes_per_sm": "shared_memory_per_multiprocessor",
    }
    known = {key: int(getattr(found, name)) for key, name in named.items() if hasattr(found, name)}
    return kernels.Limits.of_capability((found.major, found.minor), sm_count=found.multi_processor_count, **known)


def optimizer(text: str, model: Any) -> Any:
    """Return an optimizer of torch.optim by name and options, as `sgd:momentum=0.9`.

    Raises:
        ValueError: torch.optim has none of this name.
    """
    name, _, options = text.partition(":")
    known = {key.lower(): value for key, value in vars(torch.optim).items() if isinstance(value, type)}
    if name not in known:
        raise ValueError(f"optimizer {name!r}: torch.optim has none of this name")
    settings = {key: float(value) for key, value in (pair.split("=") for pair in options.split(",") if pair)}
    return known[name](model.parameters(), **{"lr": 1e-3, **settings})


def _record(report: Report, marks: Marks, timeline: Any) -> None:
    begin, copied, end = (timeline.seconds(mark) for mark in marks)
    report.spans.append((report.spans[-1][1] if report.spans else begin, end))
    report.host_to_device_milliseconds.append(1000 * (copied - begin))


def _pinned(tensor: Any, device: torch.device) -> Any:
    host = tensor.to("cpu")
    return host.pin_memory() if device.type == "cuda" else host


def _sleep_until(moment: float, stop: threading.Event) -> None:
    remaining = moment - time.monotonic()
    if remaining > 0:
        stop.wait(remaining)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Whatever torch calls its errors: out of memory is told from the rest."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.cuda.OutOfMemoryError) or any(sign in str(error) for sign in _MEMORY_SIGNS):
            raise OutOfMemoryError(str(error)[:256]) from error
        raise
