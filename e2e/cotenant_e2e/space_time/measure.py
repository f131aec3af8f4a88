"""Measures every mechanism with every training job and stream of requests. Times are seconds."""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant_e2e.space_time import arrivals as streams
from cotenant_e2e.space_time import mechanisms
from cotenant_e2e.space_time.arrivals import Arrivals
from cotenant_e2e.space_time.mechanisms import Mechanism, Side
from cotenant_e2e.space_time.processes import Worker
from cotenant_e2e.space_time.results import Cell, Run
from cotenant_e2e.space_time.weights import Weights
from cotenant_runtime import segment

CALIBRATING_REQUESTS = 60
RAMP_SECONDS = 0.5
SEED = 1
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that wait for each other sleep instead of spinning. Spinning would punish every way to share the cores."""


@dataclass(frozen=True)
class Plan:
    """What is measured, and for how long."""

    device: str
    training: Sequence[str]
    cell_seconds: float
    alone_seconds: float
    busy_ratio: float
    """Part of the time that the requests alone keep the device busy: sets their rate."""
    deadline_multiple: float
    """Deadline of a request, as a multiple of its time on the idle device."""
    quick: bool
    percentages: Sequence[int] = ()
    """Thread percentages of training under MPS, on a GPU."""
    under_mps: Mapping[str, str] | None = None
    """Environment of clients of an MPS daemon, on a GPU that has one."""


class Measurement:
    """Runs a plan."""

    def __init__(self, plan: Plan, *, python: str, say: Callable[[str], None]) -> None:
        self._plan, self._python, self._say = plan, python, say
        self._stack = contextlib.ExitStack()
        self._folder = Path()
        self._weights = Weights()
        self._inference: dict[tuple[tuple[str, str], ...], Worker] = {}
        self._run = Run("", {}, 0, 0, 0, quick=False)

    def run(self) -> Run:
        """Return everything that was measured."""
        with self._stack:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="cotenant-space-time-")))
            self._stack.enter_context(self._weights)
            compared, left_out = self._mechanisms()
            self._run = self._calibrated(compared[0], left_out)
            for name in self._plan.training:
                self._train(name, compared)
        return self._run

    def _mechanisms(self) -> tuple[list[Mechanism], list[str]]:
        cores = sorted(os.sched_getaffinity(0))
        if self._plan.device != "cpu":
            found = mechanisms.on_gpu(cores, self._plan.percentages, under_mps=self._plan.under_mps or {})
            return found, [] if self._plan.under_mps else ["MPS percentages: no MPS daemon was started"]
        reason = self._weights.possible()
        left_out = [f"{mechanisms.WEIGHTS}: {reason}"] if reason else []
        return mechanisms.on_cpu(cores, weights=not reason), left_out

    def _calibrated(self, whole: Mechanism, left_out: list[str]) -> Run:
        """Measure the requests on the idle device: they set deadline and rate."""
        load = os.getloadavg()[0]
        worker = self._serving(whole.inference)
        worker.place(whole.inference)
        worker.ask("calibrate", requests=CALIBRATING_REQUESTS // 4)
        service = statistics.median(worker.ask("calibrate", requests=CALIBRATING_REQUESTS)["seconds"])
        run = Run(
            device=self._plan.device,
            conditions={
                "processor": _processor(),
                "cores": len(os.sched_getaffinity(0)),
                "kernel": platform.release(),
                "python": platform.python_version(),
                "torch": worker.torch,
                "load": load,
                "cell_seconds": self._plan.cell_seconds,
            },
            service=service,
            deadline=self._plan.deadline_multiple * service,
            per_second=self._plan.busy_ratio / service,
            quick=self._plan.quick,
            left_out=left_out,
        )
        self._say(f"a request takes {1e3 * service:.1f} ms on the idle device")
        for kind in Arrivals:
            answer = worker.ask("serve", arrivals=self._arrivals(run, kind), deadline=run.deadline, share=None)
            run.alone[kind.value] = answer["latencies"]
        return run

    def _train(self, name: str, compared: Sequence[Mechanism]) -> None:
        """Measure one training job alone, then beside each stream under each mechanism, then alone again."""
        worker: Worker | None = None
        environment: Mapping[str, str] = {}
        steps: list[float] = []
        found: list[Cell] = []
        for mechanism in compared:
            side = mechanism.training
            if worker is None or side.environment != environment:
                if worker is not None:
                    worker.stop()
                environment = side.environment
                worker = self._stack.enter_context(self._worker(["training", name, self._plan.device], environment))
                if not side.environment or not steps:
                    steps += self._alone(worker, compared[0].training)
            for kind in Arrivals:
                self._say(f"{name}, {kind.value.lower()}, {mechanism.name}")
                found.append(self._cell(worker, name, mechanism, kind))
            if mechanism is compared[-2] and mechanism.training.nice is None and side.environment == {}:
                steps += self._alone(worker, compared[0].training)
        if worker is not None:
            worker.stop()
        alone = statistics.fmean(steps)
        self._run.cells.extend(Cell(**{**vars(cell), "alone": alone}) for cell in found)

    def _alone(self, worker: Worker, side: Side) -> list[float]:
        worker.place(side)
        worker.ask("start", share=None)
        worker.tell("train")
        _wait(self._plan.alone_seconds)
        worker.interrupt()
        return [end - begin for begin, end in worker.answer()["steps"]]

    def _cell(self, training: Worker, name: str, mechanism: Mechanism, kind: Arrivals) -> Cell:
        inference = self._serving(mechanism.inference)
        for worker, side in ((training, mechanism.training), (inference, mechanism.inference)):
            worker.place(side)
            if side.weight is not None:
                self._weights.set(worker.pid, side.weight)
        share = self._share() if mechanism.is_ours else {}
        training.ask("start", share=share.get("Training"))
        training.tell("train")
        _wait(RAMP_SECONDS)
        answer = inference.ask(
            "serve",
            arrivals=self._arrivals(self._run, kind),
            deadline=self._run.deadline,
            share=share.get("Inference"),
        )
        training.interrupt()
        trained = training.answer()
        if mechanism.training.weight is not None:
            self._weights.end()
        steps = [end - begin for begin, end in trained["steps"] if end > answer["begin"] and begin < answer["end"]]
        return Cell(
            training=name,
            arrivals=kind.value,
            mechanism=mechanism.name,
            is_split=mechanism.is_split,
            is_ours=mechanism.is_ours,
            latencies=answer["latencies"],
            deadline=self._run.deadline,
            steps=steps,
            alone=0.0,
            waited_ratio=trained["waited"] / (answer["end"] - answer["begin"]) if mechanism.is_ours else None,
        )

    def _share(self) -> dict[str, dict[str, str]]:
        """Return the environments of both jobs, with a new segment."""
        path = self._folder / "segment"
        segment.create(path)
        shared = {
            "COTENANT_SPACE_TIME_SEGMENT": str(path),
            "COTENANT_SPACE_TIME_CACHE": str(self._folder / "cache"),
        }
        return {role: {"COTENANT_SPACE_TIME": role, **shared} for role in ("Training", "Inference")}

    def _serving(self, side: Side) -> Worker:
        key = tuple(sorted(side.environment.items()))
        if key not in self._inference:
            words = ["inference", "transformer", self._plan.device]
            self._inference[key] = self._stack.enter_context(self._worker(words, side.environment))
        return self._inference[key]

    def _worker(self, words: list[str], environment: Mapping[str, str]) -> Worker:
        own = {**os.environ, **PASSIVE, **environment}
        return Worker(self._python, words, environment=own, log=self._folder / f"{'-'.join(words)}.log")

    def _arrivals(self, run: Run, kind: Arrivals) -> list[float]:
        return streams.times(kind, per_second=run.per_second, seconds=self._plan.cell_seconds, seed=SEED)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _wait(seconds: float) -> None:
    """Wait while other processes are measured."""
    time.sleep(seconds)


def say(line: str) -> None:
    """Say how far the measurement is, on standard error."""
    print(line, file=sys.stderr, flush=True)
