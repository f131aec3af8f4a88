"""What is tried against one mutant, each stage in a process of its own that is forked from one with all libraries.

A stage writes into a file what killed the mutant, empty where it lives; whatever is printed goes into another file.
"""

import enum
import importlib
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import hypothesis
import orjson
import pytest

from mutants import lines, trees

SEEDS = 100
MEMORY_BYTES = 6 * 1024**3
LIBRARIES = (
    "coverage", "fastapi", "httptools", "hypothesis", "kubernetes", "mutants.stages", "numpy", "orjson",
    "prometheus_client", "pytest", "pytest_asyncio.plugin", "schemathesis", "uvicorn", "uvloop", "xdist.plugin",
)  # fmt: skip
"""What the parent of all stages imports: none of it imports the extender."""


class Stage(enum.StrEnum):
    """What is tried, in this order; the first that fails kills the mutant."""

    IMPORT = "import"
    TESTS = "tests that run the line"
    SIMULATION = "simulation"


TRIED = (Stage.TESTS, Stage.SIMULATION)
"""Stages with a process of their own: the edited module is imported by the first."""


CPU_SECONDS = {Stage.TESTS: 90, Stage.SIMULATION: 400}
"""Thrice what all fast tests take, and four times what the simulation takes, without a mutant."""


class Verdict(NamedTuple):
    """How a mutant fared in a stage; an empty killer: it lives."""

    stage: str
    killer: str


class Work(NamedTuple):
    """One stage of one mutant.

    Attributes:
        package: folder with the mutated package.
        module: the module that was edited.
        tests: names of the tests to run, in order.
        verdict: file for what killed the mutant.
        log: file for the output.
    """

    stage: Stage
    root: Path
    package: Path
    module: str
    tests: Sequence[str]
    verdict: Path
    log: Path


class _Chosen:
    """A plugin of pytest: runs these tests in this order, and notes the first that fails."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._place = {test: place for place, test in enumerate(tests)}
        self.failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(chosen, key=lambda item: self._place[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def profile() -> None:
    """Let property tests give up at the first example that fails: nobody reads the smallest one here."""
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, database=None, phases=phases)


def work(given: Work) -> None:
    """Carry out a stage in a process of its own, which leaves a verdict unless a signal ends it."""
    os.setsid()
    _limit(CPU_SECONDS[given.stage])
    os.chdir(given.root)
    with given.log.open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    trees.use(given.package)
    killed = _imported(given.module)
    found = Verdict(Stage.IMPORT, killed) if killed else Verdict(given.stage, _carried_out(given))
    sys.stdout.flush()
    given.verdict.write_bytes(orjson.dumps(list(found)))


def measure(root: Path, target: Path, log: Path) -> None:
    """Find out which tests run which lines."""
    with log.open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(root)
    profile()
    sys.exit(lines.measure(root, target))


def _limit(seconds: int) -> None:
    """CPU time, not time of a clock: how loaded the machine is must not decide."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _imported(module: str) -> str:
    try:
        importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - whatever a mutant raises kills it
        return f"{module}: {type(error).__name__}"
    return ""


def _carried_out(given: Work) -> str:
    if given.stage is Stage.SIMULATION:
        return _simulated(given.root)
    profile()
    files = sorted({test.partition("::")[0] for test in given.tests})
    chosen = _Chosen(given.tests)
    status = int(pytest.main([*lines.STANDARD, *files], plugins=[chosen]))
    if status == 0 and not chosen.failed:
        return ""
    return (*chosen.failed, f"pytest ended with {status}")[0]


def _simulated(root: Path) -> str:
    sys.path.insert(0, str(root / "tests"))
    from simulation import runs

    for seed in range(SEEDS):
        try:
            found = runs.run(seed).violations
        except Exception as error:  # noqa: BLE001 - whatever a mutant raises kills it
            return f"seed {seed}: {type(error).__name__}: {error}"[:160]
        if found:
            return f"seed {seed}: {found[0]}"[:160]
    return ""
