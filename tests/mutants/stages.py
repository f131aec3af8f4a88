"""What is run against one mutant, in a process of its own.

Most processes are forked from one that has imported and collected everything (`warm`); where the edit is such that
modules must be imported anew, from one with all libraries (`cold`). Each writes into a file what came of it; whatever
is printed goes into another file.
"""

import enum
import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import hypothesis
import orjson
import pytest

from mutants import lines, swapping, trees, trials

MEMORY_BYTES = 3 * 1024**3
LIBRARIES = (
    "coverage", "fastapi", "httptools", "hypothesis", "kubernetes", "mutants.stages", "numpy", "orjson",
    "prometheus_client", "pytest", "pytest_asyncio.plugin", "schemathesis", "uvicorn", "uvloop", "xdist.plugin",
)  # fmt: skip
"""What the parent of all cold processes imports: none of it imports the extender."""
LEAST_SECONDS, TIMES = 5.0, 10.0
"""CPU time that a test or a seed may take: this, and as many times what it takes without a mutant."""
IMPORT_SECONDS = 60.0


class Stage(enum.StrEnum):
    """What is tried, in this order; the first that fails kills the mutant."""

    TESTS = "tests that run the line"
    SLOW = "slow tests that run the line"
    SIMULATION = "simulation"


class Work(NamedTuple):
    """Tests or seeds that are run for a mutant.

    Attributes:
        seconds: CPU time that each test or seed takes without a mutant; run in this order.
        package: folder with the mutated package, and module: the one to import first; None: nothing is imported anew.
        outcome: file for what came of it.
        begun: file for the name of what is being run.
        log: file for the output.
    """

    stage: Stage
    root: Path
    seconds: Mapping[str, float]
    package: Path | None
    module: str
    outcome: Path
    begun: Path
    log: Path


class Session:
    """A plugin of pytest: calls something with the tests that it collected, and notes those that fail."""

    def __init__(self, body: Callable[["Session"], None]) -> None:
        self._body = body
        self.items: dict[str, pytest.Item] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Called in the place of pytest's own loop."""
        self.items = {item.nodeid: item for item in session.items}
        self._body(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called after each part of a test."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for each file that was collected."""
        if report.failed:
            self.failed.append(report.nodeid)


def profile() -> None:
    """Let property tests give up at the first example that fails: nobody reads the smallest one here."""
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, database=None, phases=phases)


def measure(root: Path, wanted: Mapping[str, str], package: Path, target: Path, log: Path) -> None:
    """Find out which tests run which lines."""
    _print_to(log, append=False)
    os.chdir(root)
    profile()
    sys.exit(lines.measure(root, wanted, package, target))


def warm(given: Work, session: Session, swap: swapping.Swap | None) -> None:
    """Run a work in a fork of a process that has collected all tests."""
    _begin(given)
    if swap is not None:
        swap.make()
    _end(given, _simulated(given) if given.stage is Stage.SIMULATION else _tested(given, session))


def cold(given: Work) -> None:
    """Run a work in a process that has imported nothing of the extender."""
    _begin(given)
    assert given.package is not None
    trees.use(given.package)
    _watch(given, "import", IMPORT_SECONDS)
    try:
        importlib.import_module(given.module)
    except Exception as error:  # noqa: BLE001 - whatever a mutant raises kills it
        _end(given, trials.Outcome("import", f"{given.module}: {type(error).__name__}", certain=True))
        return
    _end(given, _simulated(given) if given.stage is Stage.SIMULATION else _collected(given))


def _begin(given: Work) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
    os.chdir(given.root)
    _print_to(given.log, append=True)


def _end(given: Work, found: trials.Outcome) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    sys.stdout.flush()
    given.outcome.write_bytes(orjson.dumps(list(found._replace(seconds=time.process_time()))))


def _print_to(log: Path, *, append: bool) -> None:
    with log.open("ab" if append else "wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)


def _watch(given: Work, name: str, seconds: float) -> None:
    """CPU time, not time of a clock: how loaded the machine is must not decide. The signal ends the process."""
    given.begun.write_text(name)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def allowed(usual: float) -> float:
    """Return the CPU time that a test may take which usually takes so much."""
    return LEAST_SECONDS + TIMES * usual


def _collected(given: Work) -> trials.Outcome:
    profile()
    files = sorted({test.partition("::")[0] for test in given.seconds})
    found: list[trials.Outcome] = []
    session = Session(lambda session: found.append(_tested(given, session)))
    status = int(pytest.main([*lines.STANDARD, *files], plugins=[session]))
    if session.failed and not session.items:
        return trials.Outcome(session.failed[0], "was not collected", certain=True)
    return found[0] if found else trials.Outcome("pytest", f"ended with {status}", certain=True)


def _tested(given: Work, session: Session) -> trials.Outcome:
    if session.failed:
        return trials.Outcome(session.failed[0], "was not collected", certain=True)
    chosen = [session.items[name] for name in given.seconds if name in session.items]
    for item, after in zip(chosen, [*chosen[1:], None], strict=True):
        _watch(given, item.nodeid, allowed(given.seconds[item.nodeid]))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.failed:
            return trials.Outcome(session.failed[0])
    return trials.Outcome()


def _simulated(given: Work) -> trials.Outcome:
    if given.package is not None:
        sys.path.insert(0, str(given.root / "tests"))
    from simulation import runs

    for name in given.seconds:
        _watch(given, name, allowed(given.seconds[name]))
        try:
            broken = runs.run(int(name.removeprefix(lines.SEED))).violations
        except Exception as error:  # noqa: BLE001 - whatever a mutant raises kills it
            broken = (f"{type(error).__name__}: {error}",)
        if broken:
            return trials.Outcome(name, broken[0][:120], certain=True)
    return trials.Outcome()
