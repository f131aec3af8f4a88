"""Run mutants, stage by stage, and keep what came of each; what is kept is not run again.

This process collects all tests once. Lanes are forked from it, and from each lane a process for every mutant.
"""

import fcntl
import functools
import gc
import importlib
import multiprocessing
import multiprocessing.context
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import pytest

from mutants import kept, lines, mutation, stages, swapping, trees, trials

STILL_SECONDS = 90.0
"""A process that sleeps and used no CPU time for so long waits for ever: no test sleeps as long."""
LOOK_SECONDS = 5.0

Process = multiprocessing.context.ForkProcess | multiprocessing.context.ForkServerProcess
Tried = Mapping[stages.Stage, Sequence[mutation.Mutant]]


class Runner:
    """Runs stages in processes; `folder` is its own."""

    def __init__(self, root: Path, folder: Path, *, jobs: int) -> None:
        self._root, self._folder, self._jobs = root, folder, jobs
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        self._states = lines.states(root)
        self._target = folder / "lines.json"

    def known(self) -> kept.Kept:
        """Return what is known of mutants.

        Raises:
            RuntimeError: it is not known which tests run which lines, of sources and tests as they are.
        """
        ran = lines.read(self._states, self._target)
        if ran is None:
            raise RuntimeError(f"{self._target} is of other sources or tests, or a test fails without any mutant")
        return self._known(ran)

    def _known(self, ran: lines.Ran) -> kept.Kept:
        return kept.Kept(self._folder / "results.jsonl", self._states, functools.partial(_tests, ran))

    def run(self, tried: Tried) -> None:
        """Try each stage on those of its mutants that are still alive and were not tried in it.

        Raises:
            RuntimeError: a test fails on the sources as they are.
        """
        lock = (self._folder / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"mutants are being tried already: {self._folder / 'lock'} is locked") from None
        base = trees.copied(self._folder / "base")
        ran = self._ran(base)
        known = self._known(ran)
        if not any(known.left(stage, mutants) for stage, mutants in tried.items()):
            return
        trees.use(base)
        stages.profile()
        session = stages.Session(lambda session: self._lanes(_Warm(base, ran, session), known, tried))
        status = int(pytest.main([*lines.STANDARD, lines.TESTS], plugins=[session]))
        if status:
            raise SystemExit(status)

    def _ran(self, base: Path) -> lines.Ran:
        """Return which tests run which lines; measured where sources or tests are others than they were."""
        log = self._folder / "lines.log"
        found = lines.read(self._states, self._target)
        if found is None:
            _say("finds out which tests and seeds run which lines")
            measuring = multiprocessing.get_context("spawn").Process
            process = measuring(target=stages.measure, args=(self._root, self._states, base, self._target, log))
            process.start()
            process.join()
            found = lines.read(self._states, self._target)
        if found is None:
            raise RuntimeError(f"tests fail without any mutant: see {log}")
        return found

    def _lanes(self, warm: "_Warm", known: kept.Kept, tried: Tried) -> None:
        forking = multiprocessing.get_context("fork").Process
        lanes = [forking(target=self._lane, args=(number, warm, known, tried)) for number in range(self._jobs)]
        try:
            for lane in lanes:
                lane.start()
            for lane in lanes:
                lane.join()
        finally:
            for lane in lanes:
                lane.terminate()
                lane.join()
        if any(lane.exitcode for lane in lanes):
            raise RuntimeError(f"a lane ended with {[lane.exitcode for lane in lanes]}")

    def _lane(self, number: int, warm: "_Warm", known: kept.Kept, tried: Tried) -> None:
        """Try every n-th mutant."""
        lane = _Lane(number, self._root, self._folder, warm)
        for stage, mutants in tried.items():
            left = known.left(stage, mutants[number :: self._jobs])
            for done, mutant in enumerate(left, start=1):
                tests = known.asked(stage, mutant)
                found = lane.tried(stage, mutant, tests)
                known.add(mutant, found, tests)
                what = found.killer or (f"runs out of CPU time in {found.late}" if found.late else "lives")
                _say(f"{stage} {done}/{len(left)}, {found.seconds:.1f} s: {mutant.place} {mutant.edit}: {what}")


class _Warm:
    """What this process has imported and collected."""

    def __init__(self, base: Path, ran: lines.Ran, session: stages.Session) -> None:
        if session.failed:
            raise RuntimeError(f"cannot be collected: {session.failed}")
        self._base, self.ran, self.session = base / trees.PACKAGE, ran, session
        importlib.import_module("simulation.runs")
        self._functions = swapping.functions(self._base)
        gc.collect()
        gc.freeze()  # what was made so far stays shared with forks

    def swap(self, mutant: mutation.Mutant) -> swapping.Swap | None:
        """Return how to put a mutant into a fork of this process; None: modules must be imported anew."""
        path = self._base / mutant.file
        change = swapping.change(path.read_text(), mutant.content, path)
        if change is None or self.ran.at_import(mutant.file, change.body):
            return None
        return swapping.swap(self._functions, path, change)


class _Lane:
    """Tries one mutant after another."""

    def __init__(self, number: int, root: Path, folder: Path, warm: _Warm) -> None:
        self._root, self._folder, self._warm = root, folder, warm
        self._here = folder / f"lane-{number}"
        self._cold = multiprocessing.get_context("forkserver")
        self._cold.set_forkserver_preload(list(stages.LIBRARIES))
        self._without: dict[tuple[str, ...], trials.Outcome] = {}

    def tried(self, stage: stages.Stage, mutant: mutation.Mutant, tests: Sequence[str]) -> trials.Verdict:
        """Try the tests of a stage on a mutant."""
        steps = trials.trial(stage, tests)
        swap = self._warm.swap(mutant)
        try:
            ask = next(steps)
            while True:
                ask = steps.send(
                    self._mutated(stage, mutant, swap, ask) if ask.mutated else self._unmutated(stage, ask)
                )
        except StopIteration as end:
            verdict: trials.Verdict = end.value
            return verdict

    def _mutated(
        self, stage: stages.Stage, mutant: mutation.Mutant, swap: swapping.Swap | None, ask: trials.Ask
    ) -> trials.Outcome:
        work = self._work(stage, ask, f"{mutant.key}.log")
        if swap is not None:
            return self._forked(work, swap)
        package = trees.copied(self._here / "tree", mutant)
        work = work._replace(package=package, module=trees.module(mutant.file))
        return _outcome(self._cold.Process(target=stages.cold, args=(work,)), work)

    def _unmutated(self, stage: stages.Stage, ask: trials.Ask) -> trials.Outcome:
        key = tuple(ask.tests)
        if key not in self._without:
            self._without[key] = self._forked(self._work(stage, ask, "unmutated.log"), None)
        return self._without[key]

    def _forked(self, work: stages.Work, swap: swapping.Swap | None) -> trials.Outcome:
        forking = multiprocessing.get_context("fork").Process
        return _outcome(forking(target=stages.warm, args=(work, self._warm.session, swap)), work)

    def _work(self, stage: stages.Stage, ask: trials.Ask, log: str) -> stages.Work:
        shutil.rmtree(self._here, ignore_errors=True)
        self._here.mkdir()
        return stages.Work(
            stage=stage, root=self._root, seconds={test: self._warm.ran.seconds.get(test, 0.0) for test in ask.tests},
            package=None, module="", outcome=self._here / "outcome", begun=self._here / "begun",
            log=self._folder / "logs" / log,
        )  # fmt: skip


def _tests(ran: lines.Ran, stage: stages.Stage, mutant: mutation.Mutant) -> Sequence[str]:
    if stage is stages.Stage.SIMULATION:
        return ran.seeds(mutant)
    return ran.covering(mutant, slow=stage is stages.Stage.SLOW)


def _outcome(process: Process, work: stages.Work) -> trials.Outcome:
    """Run a process to its end.

    Raises:
        RuntimeError: the work could not be carried out: that says nothing of the mutant.
    """
    process.start()
    try:
        still = _waited(process)
    finally:
        _end(process)
    if work.outcome.exists():
        return trials.Outcome(*orjson.loads(work.outcome.read_bytes()))
    status, begun = process.exitcode or 0, work.begun.read_text() if work.begun.exists() else ""
    if begun and (still or status == -signal.SIGPROF):
        return trials.Outcome(late=begun, seconds=stages.allowed(work.seconds.get(begun, 0.0)))
    if begun and status < 0:
        return trials.Outcome(begun, f"ended by {signal.Signals(-status).name}")
    raise RuntimeError(f"{work.stage} ended with {status} in {begun}: see {work.log}")


def _waited(process: Process) -> bool:
    """Wait for the end of a process; returns whether it waits for ever instead."""
    ticks, since = -1, time.monotonic()
    while process.is_alive():
        process.join(LOOK_SECONDS)
        sleeps, used = _state(process.pid)
        if used != ticks or not sleeps:
            ticks, since = used, time.monotonic()
        elif time.monotonic() - since > STILL_SECONDS:
            return True
    return False


def _state(pid: int | None) -> tuple[bool, int]:
    """Return whether a process sleeps, and the ticks of CPU time that it used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return False, 0
    return fields[0] == "S", int(fields[11]) + int(fields[12])


def _end(process: Process) -> None:
    """Kill a process, and what it started: it leads a session of its own."""
    pid = process.pid
    if pid is not None and process.is_alive():
        os.killpg(pid, signal.SIGKILL) if os.getsid(pid) == pid else process.kill()
    process.join()


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()
