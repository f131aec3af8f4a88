"""Which tests run which lines of the extender: found out by one run of the fast tests under coverage, file by file.

A test that does not run an edited line runs as it would without the edit: property tests draw the same examples each
time. Only what runs in processes that tests start is not seen; such tests are tried on every mutant.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import orjson
import pytest

from mutants import mutation, trees

STANDARD = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:cov", "--assert=plain", "--hypothesis-profile=mutants")
TESTS = "tests/extender"
UNSEEN = ("tests/extender/test_process.py",)
"""Files of tests that start processes."""
AT_IMPORT = ""
"""Stands for all tests: what an import runs."""


class Ran(NamedTuple):
    """What tests run.

    Attributes:
        seconds: how long each test takes, by name.
        lines: names of tests by file and line.
    """

    seconds: Mapping[str, float]
    lines: Mapping[str, Mapping[int, Sequence[str]]]

    def covering(self, mutant: mutation.Mutant) -> list[str]:
        """Return the tests that may run the edited lines: those of a file of the same name first, then the fastest."""
        of_file = self.lines.get(mutant.file, {})
        found = {test for line in range(mutant.first, mutant.last + 1) for test in of_file.get(line, ())}
        if AT_IMPORT in found:
            found = set(self.seconds)
        found.update(test for test in self.seconds if test.startswith(UNSEEN))
        like = f"test_{Path(mutant.file).stem}"
        return sorted(found, key=lambda test: (like not in test.partition("::")[0], self.seconds[test], test))


class _Recorder:
    """A plugin of pytest that tells coverage which test runs, and keeps the time that it takes."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._measured.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._measured.switch_context(AT_IMPORT)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def states(root: Path) -> dict[str, str]:
    """Return a digest for each file of tests: of it, of what tests share, and of the sources."""
    files = sorted((root / TESTS).rglob("*.py"))
    shared = [path for path in files if not path.name.startswith("test_")]
    common = _digest([*sorted(mutation.SOURCES.rglob("*.py")), *shared])
    tests = (path for path in files if path not in shared)
    return {path.relative_to(root).as_posix(): f"{common} {_digest([path])}" for path in tests}


def _digest(paths: Iterable[Path]) -> str:
    found = hashlib.blake2b(digest_size=8)
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


def measure(root: Path, target: Path) -> int:
    """Run the tests that are not known as they are now under coverage, and write what they run.

    Called in a process of its own.

    Returns:
        pytest's exit status; nothing is written unless it is 0.
    """
    wanted, known = states(root), _known(target)
    left = [file for file, state in wanted.items() if known.get(file, {}).get("state") != state]
    package = trees.copied(root / ".run" / "mutants" / "measured")
    trees.use(package)
    measured = coverage.Coverage(data_file=None, branch=False, config_file=False, source=[str(package)])
    recorder = _Recorder(measured)
    measured.start()
    status = int(pytest.main([*STANDARD, *left], plugins=[recorder]))
    measured.stop()
    if status == 0:
        known |= _by_test_file(measured.get_data(), package / trees.PACKAGE, recorder.seconds, left)
        for file in left:
            known[file]["state"] = wanted[file]
        target.write_bytes(orjson.dumps({file: known[file] for file in wanted}))
    return status


def _by_test_file(
    data: coverage.CoverageData, package: Path, seconds: Mapping[str, float], files: Iterable[str]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {file: {"seconds": {}, "lines": []} for file in files}
    numbers: dict[str, int] = {AT_IMPORT: -1}
    for test, taken in seconds.items():
        of_file = found[test.partition("::")[0]]["seconds"]
        numbers[test] = len(of_file)
        of_file[test] = taken
    for name in data.measured_files():
        source = Path(name).relative_to(package).as_posix()
        for line, tests in data.contexts_by_lineno(name).items():
            for test in set(tests):
                at = test.partition("::")[0]
                for file in found if test == AT_IMPORT else [at]:
                    found[file]["lines"].append((source, line, numbers[test]))
    return found


def read(root: Path, target: Path) -> Ran | None:
    """Return what was measured; None where tests are missing, or sources or tests are others now."""
    known, seconds = _known(target), dict[str, float]()
    lines: defaultdict[str, defaultdict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for file, state in states(root).items():
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
