"""What `cotenant profile` does on the machine with the GPU; there also as `python -m cotenant_predictor.profiling`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import campaign, environment, graphs, mechanisms, mps, plan, sets
from .behaviour import bench, laboratory
from .engines import Device
from .executor import Executor, Settings
from .nvml import Gpu
from .pool import Pool, Worker
from .progress import Screen
from .seats import Seat
from .store import Store, StoreError, pack, unpack

_GRAPH_SECONDS = 300.0


class UsageError(Exception):
    """What was asked for cannot be done; the message says what to do instead."""


def configure_run(parser: argparse.ArgumentParser) -> None:
    """Arguments of `run`."""
    parser.add_argument("--set", choices=sorted(sets.SETS), default="smoke", help="the jobs; default: smoke")
    parser.add_argument("--stages", default="all", help=f"comma-separated, of {', '.join(plan.STAGES)}; default: all")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="results; what is there is continued")
    parser.add_argument("--input", type=Path, nargs="*", default=[], metavar="ARCHIVE", help="results of earlier calls")
    parser.add_argument("--budget-seconds", type=float, default=450.0, help="end within this time; default: 450")
    parser.add_argument("--window-seconds", type=float, default=3.0, help="what is measured of a run; default: 3")
    parser.add_argument("--ramp-seconds", type=float, default=1.0, help="what is left out before it; default: 1")
    parser.add_argument("--requests", type=int, default=5000, help="of an inference job in `compare`; default: 5000")
    parser.add_argument("--precision", help="fp32, tf32, fp16 or bf16 instead of the set's own")
    parser.add_argument("--max-workers", type=int, default=24, help="processes kept at once; default: 24")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU; default: 0")
    parser.add_argument("--commit", help="the commit of this code, where no repository is at hand")
    parser.add_argument("--grace-seconds", type=float, default=30.0, help="until a tenant counts as hung; default: 30")
    parser.add_argument("--kills", type=int, default=2, help="of one run of an experiment that kills; default: 2")
    parser.add_argument("--product", type=Path, metavar="FILE", help="program that asks with the node agent's own code")
    parser.add_argument("--device", type=Device, choices=list(Device), default=Device.CUDA, help=argparse.SUPPRESS)
    parser.add_argument("--no-graphs", action="store_true", help="extract no graph documents")


def run(arguments: argparse.Namespace) -> int:
    """Carry out a campaign as far as the budget goes. 0: something is done; 3: nothing could be done.

    Raises:
        UsageError: a wrong argument, or no GPU can be read here.
    """
    started, screen = time.monotonic(), Screen()
    signal.signal(signal.SIGTERM, _end)
    try:
        store = Store(arguments.output)
        unpack(arguments.input, store)
        jobs = _jobs(arguments)
        planned = plan.runs(jobs, plan.STAGES if arguments.stages == "all" else arguments.stages.split(","))
        if not arguments.no_graphs and (problem := _extract(jobs, store)):
            screen.say(f"graphs are missing, extract them elsewhere: {problem}")
        with _management(arguments.device) as nvml, tempfile.TemporaryDirectory(prefix="cotenant-") as folder:
            machine = Machine(arguments, _unused(Gpu(nvml, arguments.gpu), arguments.grace_seconds), jobs, Path(folder))
            work = campaign.Campaign(machine.facts(), store, screen=screen, deadline=started + arguments.budget_seconds)
            summary = machine.carry_out(work, planned)
    except (ValueError, StoreError) as error:
        raise UsageError(str(error)) from error
    screen.say(f"{summary.done} of {len(planned)} runs done, {summary.left} left")
    for reason, count in summary.blocked.items():
        screen.say(f"  {count}: {reason}")
    return 0 if summary.done else 3


class Machine:
    """Where a campaign runs: the GPU, the processes, and a folder for what is only needed meanwhile."""

    def __init__(self, arguments: argparse.Namespace, gpu: Gpu, jobs: sets.JobSet, folder: Path) -> None:
        self._arguments, self._gpu, self._jobs, self._folder = arguments, gpu, jobs, folder
        self._empty = folder / "no-mps"
        self._empty.mkdir()
        self._started = 0
        known = {job.name: job for job in jobs.jobs}
        self._pool = Pool(
            self._start,
            jobs=known,
            used_mib=gpu.used_mib,
            memory_mib=gpu.memory_mib,
            max_workers=arguments.max_workers,
        )
        settings = Settings(
            arguments.window_seconds,
            arguments.ramp_seconds,
            arguments.requests,
            arguments.grace_seconds,
            arguments.kills,
        )
        conduct = None if arguments.device is Device.CPU else self._conduct
        self._settings, self._executor = settings, Executor(gpu, self._pool, settings, conduct=conduct)

    def facts(self) -> campaign.Facts:
        """Return what is the same for every result."""
        return campaign.Facts(
            gpu_model=self._gpu.model,
            gpu_uuid=self._gpu.uuid,
            simulated=self._arguments.device is not Device.CUDA or self._gpu.is_stand_in,
            environment=environment.describe(self._gpu, commit=self._arguments.commit),
            jobs=self._jobs,
            settings=self._settings,
        )

    def carry_out(self, work: campaign.Campaign, planned: Sequence[plan.Run]) -> campaign.Summary:
        """Do what is left."""
        try:
            return work.carry_out(
                planned,
                pool=self._pool,
                executor=self._executor,
                start_mps=lambda: mps.ControlDaemon.start(
                    _mps_program(self._arguments.device), gpu_uuid=self._gpu.uuid
                ),
            )
        finally:
            self._pool.close()
            self._executor.end_daemon()

    def _conduct(self, name: str) -> dict[str, Any]:
        conditions = bench.Conditions(self._settings.ramp_seconds, self._settings.kills, self._arguments.product)
        program = _mps_program(self._arguments.device)
        place = bench.Bench(
            self._gpu, self._folder, device=self._arguments.device, program=program, conditions=conditions
        )
        return laboratory.conduct(name, place)

    def _start(self, seat: Seat) -> Worker:
        daemon = self._executor.daemon
        if seat.under_mps and daemon is not None:
            variables = mechanisms.client_environment(
                pipe_directory=daemon.pipe_directory,
                thread_percentage=seat.thread_percentage,
                memory_limit_mib=seat.memory_limit_mib,
                client_priority=seat.client_priority,
            )
        else:
            variables = mechanisms.plain_environment(gpu_uuid=self._gpu.uuid, empty_directory=str(self._empty))
        # many tenants share the processor: one thread each for its arithmetic
        complete = {**mechanisms.inherited(os.environ), "OMP_NUM_THREADS": "1", **variables}
        self._started += 1
        log = self._folder / f"worker-{self._started}.log"
        return Worker(seat, device=self._arguments.device.value, environment=complete, log=log)


def _unused(gpu: Gpu, grace_seconds: float) -> Gpu:
    """Return the GPU, once what an earlier call left has ended.

    Raises:
        UsageError: others compute on it.
    """
    deadline = time.monotonic() + grace_seconds
    while count := gpu.processes():
        if time.monotonic() > deadline:
            raise UsageError(f"{count} other processes compute on the GPU: what is measured beside them says nothing")
        time.sleep(0.2)
    return gpu


def _end(number: int, _: object) -> None:
    """Have a request to end unwind like any other, so that no process is left."""
    sys.exit(128 + number)


def _mps_program(device: Device) -> Sequence[str]:
    if device is Device.CUDA:
        return mps.PROGRAM
    return (sys.executable, "-m", f"{__package__}.simulated.mps_control")


def _jobs(arguments: argparse.Namespace) -> sets.JobSet:
    found = sets.named(arguments.set)
    return found if arguments.precision is None else sets.in_precision(found, arguments.precision)


def _extract(jobs: sets.JobSet, store: Store) -> str | None:
    processes = max(1, (os.cpu_count() or 2) // 2)
    return graphs.extract_missing(jobs.jobs, store, processes=processes, timeout_seconds=_GRAPH_SECONDS)


@contextlib.contextmanager
def _management(device: Device) -> Iterator[Any]:
    """pynvml, or what stands for it.

    Raises:
        UsageError: there is no driver here.
    """
    try:
        nvml = importlib.import_module("pynvml" if device is Device.CUDA else f"{__package__}.simulated.nvml")
    except ModuleNotFoundError as error:
        raise UsageError("pynvml is not installed: pip install nvidia-ml-py") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise UsageError(f"no NVIDIA driver can be read here: {error}") from error
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def configure_pack(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pack`."""
    parser.add_argument("folder", type=Path, help="a campaign's folder")
    parser.add_argument("into", type=Path, help="where campaign-N.tar.gz are written")


def run_pack(arguments: argparse.Namespace) -> int:
    """Put a campaign's files into archives."""
    for path in pack(Store(arguments.folder), arguments.into):
        print(path)
    return 0


def configure_graphs(parser: argparse.ArgumentParser) -> None:
    """Arguments of `graphs`."""
    parser.add_argument("--set", choices=sorted(sets.SETS), required=True, help="the jobs")
    parser.add_argument("--precision", help="fp32, tf32, fp16 or bf16 instead of the set's own")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a campaign's folder")


def run_graphs(arguments: argparse.Namespace) -> int:
    """Extract the graph documents that a campaign's folder lacks; needs torch, no GPU. 1: some are missing still."""
    problem = _extract(_jobs(arguments), Store(arguments.output))
    if problem:
        print(f"profile: {problem}", file=sys.stderr)
    return 1 if problem else 0


COMMANDS = {
    "run": ("measure what is left of a campaign, on the machine with the GPU", configure_run, run),
    "pack": ("put a campaign's files into archives below 16 MiB", configure_pack, run_pack),
    "graphs": ("extract the graph documents of a set's jobs", configure_graphs, run_graphs),
}
"""Name, then what it is for, its arguments, and what it does."""


def main(argv: list[str] | None = None) -> int:
    """Return the command line where nothing else of the project is installed."""
    parser = argparse.ArgumentParser(prog="python -m cotenant_predictor.profiling", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (summary, configure, _) in COMMANDS.items():
        configure(commands.add_parser(name, help=summary, description=summary))
    arguments = parser.parse_args(argv)
    try:
        return COMMANDS[arguments.command][2](arguments)
    except UsageError as error:
        print(f"profile: {error}", file=sys.stderr)
        return 2
