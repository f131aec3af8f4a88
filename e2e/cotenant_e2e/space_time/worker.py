"""One of the two measured processes: `worker training NAME DEVICE` or `worker inference transformer DEVICE`.

It reads commands as lines of JSON and answers each with one. Times are seconds of the machine's monotonic clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from cotenant_e2e.space_time import networks
from cotenant_runtime import hooks, serving, settings, startup
from cotenant_runtime import segment as segments
from cotenant_runtime.devices.cpu import CPU
from cotenant_runtime.heartbeat import Heartbeat

WARM_UP_STEPS = 3
STARTED_NICE = os.getpriority(os.PRIO_PROCESS, 0)


def main(words: list[str]) -> None:
    """Answer commands until the input ends."""
    role, name, device = words
    torch.manual_seed(0)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    job: Any = Training(name, device) if role == "training" else Inference(device)
    print(json.dumps({"torch": torch.__version__}), file=answers)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(job, command.pop("do"))(**command)), file=answers)


class Placed:
    """What both processes can be told."""

    def place(self, *, cores: list[int], threads: int, nice: int | None) -> dict[str, Any]:
        """Move all threads of the process to these cores and this priority."""
        wanted = STARTED_NICE if nice is None else nice
        torch.set_num_threads(threads)
        torch.randn(512, 512) @ torch.randn(512, 512)  # makes the threads
        for thread in (int(path.name) for path in Path("/proc/self/task").iterdir()):
            os.sched_setaffinity(thread, cores)
            if os.getpriority(os.PRIO_PROCESS, thread) != wanted:
                os.setpriority(os.PRIO_PROCESS, thread, wanted)
        return {}


class Training(Placed):
    """Trains one network until it is told to stop."""

    def __init__(self, name: str, device: str) -> None:
        self._model, inputs = networks.TRAINING[name](networks.Size(device))
        self._model.to(device)
        self._inputs = inputs.to(device)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-4, momentum=0.9)
        self._runtime: hooks.Hooks | None = None

    def start(self, *, share: Mapping[str, str] | None) -> dict[str, Any]:
        """Attach the runtime where it is asked for, and train the steps that are left out of the measurement."""
        self._runtime = _attached(share)
        for _ in range(WARM_UP_STEPS if self._runtime is None else hooks.LEARNING_STEPS + WARM_UP_STEPS):
            self._step()
        return {}

    def train(self) -> dict[str, Any]:
        """Train until a line comes in; return begin and end of each step."""
        steps: list[tuple[float, float]] = []
        while not select.select([sys.stdin], [], [], 0)[0]:
            begin = time.monotonic()
            self._step()
            steps.append((begin, time.monotonic()))
        sys.stdin.readline()
        runtime, self._runtime, waited = self._runtime, None, 0.0
        if runtime is not None:
            if runtime.trainer is None:
                raise RuntimeError("the runtime has ended: its warning is above")
            waited = runtime.trainer.waited_ns / 1e9
            runtime.remove()
        return {"steps": steps, "waited": waited}

    def _step(self) -> None:
        self._optimizer.zero_grad()
        found = networks.loss(self._model(self._inputs))
        found.backward()
        self._optimizer.step()
        found.item()


class Inference(Placed):
    """Answers requests one after the other, as they arrive."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._model, inputs = networks.transformer(networks.Size(device))
        self._model.to(device)
        self._inputs = inputs.to(device)

    def calibrate(self, *, requests: int) -> dict[str, Any]:
        """Return the seconds of requests that follow each other at once."""
        found = []
        for _ in range(requests):
            begin = time.monotonic()
            self._answer()
            found.append(time.monotonic() - begin)
        return {"seconds": found}

    def serve(self, *, arrivals: list[float], deadline: float, share: Mapping[str, str] | None) -> dict[str, Any]:
        """Answer the requests of a stream; return the begin and the seconds from each arrival to its answer."""
        with _published(share, self._device) as server:
            begin = time.monotonic() + 0.05
            requests: queue.SimpleQueue[tuple[float, Any]] = queue.SimpleQueue()

            def arrive() -> None:
                for offset in arrivals:
                    time.sleep(max(0.0, begin + offset - time.monotonic()))
                    opened = None
                    if server is not None:
                        opened = server.begin(deadline_seconds=deadline, arrived_seconds=begin + offset)
                    requests.put((begin + offset, opened))

            thread = threading.Thread(target=arrive)
            thread.start()
            latencies = []
            for _ in arrivals:
                arrival, request = requests.get()
                with server.computing(request) if server is not None else contextlib.nullcontext():
                    self._answer()
                if server is not None:
                    server.end(request)
                latencies.append(time.monotonic() - arrival)
            thread.join()
        return {"begin": begin, "end": time.monotonic(), "latencies": latencies}

    def _answer(self) -> None:
        with torch.inference_mode():
            self._model(self._inputs).sum().item()


def _attached(share: Mapping[str, str] | None) -> hooks.Hooks | None:
    wanted = None if share is None else settings.read(share)
    return None if wanted is None else startup.attach(torch, wanted)


@contextlib.contextmanager
def _published(share: Mapping[str, str] | None, device: str) -> Iterator[serving.Server | None]:
    wanted = None if share is None else settings.read(share)
    if wanted is None:
        yield None
        return
    segment = segments.Segment(wanted.segment)
    server = serving.Server(segment.claim(), meter=CPU() if device == "cpu" else None)
    heartbeat = Heartbeat(server.publish)
    heartbeat.start()
    try:
        yield server
    finally:
        heartbeat.stop()
        server.close()
        segment.close()


if __name__ == "__main__":
    main(sys.argv[1:])
