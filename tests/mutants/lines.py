"""Which tests run which lines of the extender: found out by one run of the fast tests under coverage, file by file.

So it is for each of the seeds of the simulation that are tried. A test that does not run an edited line runs as it
would without the edit: property tests draw the same examples each time.
"""

import hashlib
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import orjson
import pytest

from mutants import constants, mutation, trees

STANDARD = (
    "-q", "-x", "--capture=sys", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist", "--assert=plain",
    "--hypothesis-profile=mutants",
)  # fmt: skip
ROOT = Path(__file__).parents[2]
TESTS = "tests/extender"
SIMULATION = "tests/simulation"
SEEDS = 100
SEED = "seed "
"""Before the number of a seed, which is the name of its run."""
SLOW_SECONDS = 0.5
"""CPU time under coverage. Slow tests are run when all mutants were tried with the others."""
AT_IMPORT = ""
"""Stands for all tests: what an import runs."""


class Ran(NamedTuple):
    """What tests and seeds run.

    Attributes:
        seconds: CPU time of each, by name.
        lines: names by file and line.
    """

    seconds: Mapping[str, float]
    lines: Mapping[str, Mapping[int, Sequence[str]]]

    def covering(self, mutant: mutation.Mutant, *, slow: bool) -> list[str]:
        """Return the tests that may run the edited lines, the slow ones or the others.

        First are those that are likely to notice an edit: of the file of tests that runs most of the mutant's file. Of
        these the fastest is first.
        """
        like = f"test_{Path(mutant.file).stem}."
        breadth = Counter[str]()
        for tests in self.lines.get(mutant.file, {}).values():
            breadth.update({file_of(test) for test in tests})
        found = (name for name in self._covering(mutant) if not name.startswith(SEED))
        return sorted(
            (test for test in found if slow == (self.seconds[test] > SLOW_SECONDS)),
            key=lambda test: (like not in file_of(test), -breadth[file_of(test)], self.seconds[test], test),
        )

    def seeds(self, mutant: mutation.Mutant) -> list[str]:
        """Return the seeds that may run the edited lines, the fastest first."""
        found = (name for name in self._covering(mutant) if name.startswith(SEED))
        return sorted(found, key=lambda seed: (self.seconds[seed], seed))

    def at_import(self, file: str, numbers: Iterable[int]) -> bool:
        """Return whether imports run any of these lines."""
        of_file = self.lines.get(file, {})
        return any(AT_IMPORT in of_file.get(number, ()) for number in numbers)

    def _covering(self, mutant: mutation.Mutant) -> set[str]:
        places = constants.places(mutant)
        found = {name for file, number in places for name in self.lines.get(file, {}).get(number, ())}
        if AT_IMPORT in found:
            return set(self.seconds)
        naming = tuple(f"{TESTS}/{path.name}" for path in constants.tests_naming(mutant, ROOT / TESTS))
        return found | {test for test in self.seconds if naming and test.startswith(naming)}


class _Recorder:
    """A plugin of pytest that tells coverage which test runs, and keeps the CPU time that it takes."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._measured.switch_context(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - began
            self._measured.switch_context(AT_IMPORT)


def states(root: Path) -> dict[str, str]:
    """Return a digest for each file of tests and for the simulation: of it, of what tests share, and of the sources."""
    files = sorted((root / TESTS).rglob("*.py"))
    shared = [path for path in files if not path.name.startswith("test_")]
    common = _digest([*sorted(mutation.SOURCES.rglob("*.py")), *shared])
    tests = (path for path in files if path not in shared)
    found = {path.relative_to(root).as_posix(): f"{common} {_digest([path])}" for path in tests}
    return found | {SIMULATION: f"{common} {_digest(sorted((root / SIMULATION).glob('*.py')))}"}


def _digest(paths: Iterable[Path]) -> str:
    found = hashlib.blake2b(digest_size=8)
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


def measure(root: Path, wanted: Mapping[str, str], package: Path, target: Path) -> int:
    """Run what is not known as it is now under coverage, and write which lines it runs.

    Called in a process of its own, which imports the package from its copy in the folder `package`. `wanted`: see
    `states`.

    Returns:
        pytest's exit status, or 1 where a seed fails; nothing is written unless it is 0.
    """
    known = _known(target)
    left = [file for file, state in wanted.items() if known.get(file, {}).get("state") != state]
    files = [file for file in left if file != SIMULATION]
    trees.use(package)
    measured = coverage.Coverage(data_file=None, branch=False, config_file=False, source=[str(package)])
    recorder = _Recorder(measured)
    measured.start()
    status = int(pytest.main([*STANDARD, *files], plugins=[recorder])) if files else 0
    if status == 0 and SIMULATION in left:
        status = _seeds(root, recorder.seconds, measured)
    measured.stop()
    if status == 0:
        known |= _by_file(measured.get_data(), package / trees.PACKAGE, recorder.seconds, left)
        for file in left:
            known[file]["state"] = wanted[file]
        target.write_bytes(orjson.dumps({file: known[file] for file in wanted}))
    return status


def _seeds(root: Path, seconds: dict[str, float], measured: coverage.Coverage) -> int:
    sys.path.insert(0, str(root / "tests"))
    from simulation import runs

    for number in range(SEEDS):
        measured.switch_context(f"{SEED}{number}")
        found = runs.run(number)
        if found.violations:
            sys.stdout.write(f"seed {number}: {found.violations[0]}\n")
            return 1
        seconds[f"{SEED}{number}"] = found.seconds
    measured.switch_context(AT_IMPORT)
    return 0


def file_of(name: str) -> str:
    """Return the file of a test, and the folder of a seed; what is said behind the name does not matter."""
    return SIMULATION if name.startswith(SEED) else name.partition("::")[0].partition(": ")[0]


def _by_file(
    data: coverage.CoverageData, package: Path, seconds: Mapping[str, float], files: Iterable[str]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {file: {"seconds": {}, "lines": []} for file in files}
    numbers: dict[str, int] = {AT_IMPORT: -1}
    for test, taken in seconds.items():
        of_file = found[file_of(test)]["seconds"]
        numbers[test] = len(of_file)
        of_file[test] = taken
    for name in data.measured_files():
        source = Path(name).relative_to(package).as_posix()
        for line, tests in data.contexts_by_lineno(name).items():
            for test in set(tests):
                for file in found if test == AT_IMPORT else [file_of(test)]:
                    found[file]["lines"].append((source, line, numbers[test]))
    return found


def read(wanted: Mapping[str, str], target: Path) -> Ran | None:
    """Return what was measured; None where tests are missing, or sources or tests were others (see `states`)."""
    known, seconds = _known(target), dict[str, float]()
    lines: defaultdict[str, defaultdict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for file, state in wanted.items():
        if known.get(file, {}).get("state") != state:
            return None
        tests = [*known[file]["seconds"], AT_IMPORT]
        seconds |= known[file]["seconds"]
        for source, line, number in known[file]["lines"]:
            lines[source][line].append(tests[number])
    return Ran(seconds, lines)


def _known(target: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = orjson.loads(target.read_bytes()) if target.exists() else {}
    return found
