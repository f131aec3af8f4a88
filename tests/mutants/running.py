"""Run mutants, some at a time, stage by stage, and keep what came of each; what is kept is not run again."""

import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import orjson

from mutants import lines, mutation, stages, trees

Tests = Callable[[mutation.Mutant], list[str]]

CLOCK_SECONDS = 3600.0
"""A stage that waits for ever uses no CPU time; this is far above what any stage needs on a loaded machine."""


@dataclass(slots=True)
class Result:
    """What came of one mutant.

    Attributes:
        lived: stages that did not kill it.
        stage: the stage that killed it; empty: none did.
        killer: the test or the seed that killed it.
    """

    lived: list[str] = field(default_factory=list)
    stage: str = ""
    killer: str = ""

    @property
    def survived(self) -> bool:
        """Return whether every stage was tried, and none killed it."""
        return not self.stage and len(self.lived) == len(stages.TRIED)

    @property
    def tried(self) -> bool:
        """Return whether any stage was tried."""
        return bool(self.stage or self.lived)


class Kept:
    """Results in a file, one line for each stage of each mutant."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.results: dict[str, Result] = {}
        if path.exists():
            for line in path.read_bytes().splitlines():
                self._note(*orjson.loads(line))

    def of(self, mutant: mutation.Mutant) -> Result:
        """Return what is known of a mutant."""
        return self.results.get(mutant.key) or Result()

    def add(self, mutant: mutation.Mutant, found: stages.Verdict) -> None:
        """Keep what a stage came to."""
        line = mutant.key, found.stage, found.killer, mutant.place, mutant.edit
        with self._path.open("ab") as target:
            target.write(orjson.dumps(line) + b"\n")
        self._note(*line)

    def forget(self, mutants: Iterable[mutation.Mutant]) -> None:
        """Try mutants again that lived."""
        again = {mutant.key for mutant in mutants if not self.of(mutant).stage}
        if self._path.exists():
            kept = [line for line in self._path.read_bytes().splitlines() if orjson.loads(line)[0] not in again]
            self._path.write_bytes(b"".join(line + b"\n" for line in kept))
        for key in again:
            self.results.pop(key, None)

    def _note(self, key: str, stage: str, killer: str, *_for_people: str) -> None:
        result = self.results.setdefault(key, Result())
        if killer:
            result.stage, result.killer = stage, killer
        elif stage not in result.lived:
            result.lived.append(stage)


@dataclass(frozen=True, slots=True)
class _Running:
    mutant: mutation.Mutant
    work: stages.Work
    process: ForkServerProcess
    until: float


class Runner:
    """Runs stages in processes; `folder` is its own."""

    def __init__(self, root: Path, folder: Path, *, jobs: int) -> None:
        self._root, self._folder, self._jobs = root, folder, jobs
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(stages.LIBRARIES))
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        self.kept = Kept(folder / "results.jsonl")
        self._number = 0

    def ran(self) -> lines.Ran:
        """Return which tests run which lines; measured where sources or tests are others than they were.

        Raises:
            RuntimeError: a test fails on the sources as they are.
        """
        target, log = self._folder / "lines.json", self._folder / "lines.log"
        found = lines.read(self._root, target)
        if found is None:
            _say("finds out which tests run which lines")
            process = self._context.Process(target=stages.measure, args=(self._root, target, log))
            process.start()
            process.join()
            found = lines.read(self._root, target)
        if found is None:
            raise RuntimeError(f"the fast tests fail without any mutant: see {log}")
        return found

    def run(self, stage: stages.Stage, mutants: Sequence[mutation.Mutant], tests: Tests) -> None:
        """Try one stage on every mutant that is still alive and was not tried in it."""
        left = [mutant for mutant in mutants if not self.kept.of(mutant).stage]
        left = [mutant for mutant in left if str(stage) not in self.kept.of(mutant).lived]
        for done, (mutant, found) in enumerate(self._each(stage, left, tests), start=1):
            self.kept.add(mutant, found)
            _say(f"{stage} {done}/{len(left)}: {mutant.place} {mutant.edit}: {found.killer or 'lives'}")

    def _each(
        self, stage: stages.Stage, left: Sequence[mutation.Mutant], tests: Tests
    ) -> Iterator[tuple[mutation.Mutant, stages.Verdict]]:
        waiting, running = list(reversed(left)), dict[int, _Running]()
        try:
            while waiting or running:
                while waiting and len(running) < self._jobs:
                    mutant = waiting.pop()
                    begun = self._begun(stage, mutant, tests(mutant))
                    running[begun.process.sentinel] = begun
                for over in self._over(running):
                    del running[over.process.sentinel]
                    yield over.mutant, _verdict(over)
        finally:
            for begun in running.values():
                _end(begun)

    def _begun(self, stage: stages.Stage, mutant: mutation.Mutant, tests: list[str]) -> _Running:
        self._number += 1
        folder = self._folder / "trees" / str(self._number)
        trees.copied(folder, mutant)
        given = stages.Work(
            stage=stage, root=self._root, package=folder, module=trees.module(mutant.file), tests=tests,
            verdict=folder / "verdict", log=self._folder / "logs" / f"{mutant.key}.log",
        )  # fmt: skip
        process = self._context.Process(target=stages.work, args=(given,))
        process.start()
        return _Running(mutant, given, process, time.monotonic() + CLOCK_SECONDS)

    @staticmethod
    def _over(running: dict[int, _Running]) -> list[_Running]:
        ready = multiprocessing.connection.wait(list(running), timeout=5.0)
        now = time.monotonic()
        late = [begun for begun in running.values() if begun.until < now and begun.process.sentinel not in ready]
        for begun in late:
            _end(begun)
        return [*(running[sentinel] for sentinel in ready if isinstance(sentinel, int)), *late]


def _verdict(over: _Running) -> stages.Verdict:
    """Read what a stage wrote before it ended; a signal that ended it early kills the mutant, too.

    Raises:
        RuntimeError: the stage could not be carried out: that says nothing of the mutant.
    """
    over.process.join()
    status = over.process.exitcode or 0
    if over.work.verdict.exists():
        found = stages.Verdict(*orjson.loads(over.work.verdict.read_bytes()))
    elif status < 0:
        found = stages.Verdict(over.work.stage, f"ended by {signal.Signals(-status).name}")
    else:
        raise RuntimeError(f"{over.work.stage} of {over.mutant.place} ended with {status}: see {over.work.log}")
    shutil.rmtree(over.work.package)
    return found


def _end(begun: _Running) -> None:
    """Kill a stage, and what it started: it leads a session of its own."""
    pid = begun.process.pid
    if pid is not None and begun.process.is_alive():
        os.killpg(pid, signal.SIGKILL) if os.getsid(pid) == pid else begun.process.kill()
        begun.process.join()


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()
