"""What is known of mutants from earlier runs: one line of a file for each stage of each mutant.

A line holds as long as the sources and the tests that it speaks of are as they were then. A mutant that was killed
before that is tried first with what killed it; one that lived is tried only with the tests that are others now.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from mutants import lines, mutation, stages, trials

Tests = Callable[[stages.Stage, mutation.Mutant], Sequence[str]]
"""The tests or seeds that a stage tries on a mutant."""


@dataclass(slots=True)
class Result:
    """What came of one mutant.

    Attributes:
        lived: the files of tests that did not kill it, by the stage.
        stage: the stage that killed it; empty: none did.
        killer: the test or the seed that killed it.
        before: what killed it when sources or tests were others.
        late: a test or seed that ran out of CPU time, which kills nothing.
        seconds: CPU time that was spent on it.
        survived: every stage was tried to its end, and none killed it.
    """

    lived: dict[str, set[str]] = field(default_factory=dict)
    stage: str = ""
    killer: str = ""
    before: str = ""
    late: str = ""
    seconds: float = 0.0
    survived: bool = False

    @property
    def tried(self) -> bool:
        """Return whether any stage was tried."""
        return bool(self.stage or self.lived)


class Kept:
    """Results in a file; `states` says what sources and tests are now (see `lines.states`)."""

    def __init__(self, path: Path, states: Mapping[str, str], tests: Tests) -> None:
        self._path, self._states, self._tests = path, states, tests
        self.results: dict[str, Result] = {}
        if path.exists():
            for line in path.read_bytes().splitlines():
                self._note(*orjson.loads(line))

    def of(self, mutant: mutation.Mutant) -> Result:
        """Return what is known of a mutant."""
        found = self.results.get(mutant.key) or Result()
        found.survived = not found.stage and not any(self._is_open(stage, mutant, found) for stage in stages.Stage)
        return found

    def left(self, stage: stages.Stage, mutants: Iterable[mutation.Mutant]) -> list[mutation.Mutant]:
        """Return the mutants that are alive and were not tried in a stage to its end."""
        known = ((mutant, self.of(mutant)) for mutant in mutants)
        return [mutant for mutant, found in known if not found.stage and self._is_open(stage, mutant, found)]

    def asked(self, stage: stages.Stage, mutant: mutation.Mutant) -> list[str]:
        """Return what a stage must still try on a mutant: first what killed it before, if anything did."""
        known = self.of(mutant)
        lived = known.lived.get(stage, set())
        tests = [test for test in self._tests(stage, mutant) if lines.file_of(test) not in lived]
        return sorted(tests, key=lambda test: test not in (known.before, known.before.partition(": ")[0]))

    def add(self, mutant: mutation.Mutant, found: trials.Verdict, tests: Iterable[str]) -> None:
        """Keep what a stage came to that tried some tests."""
        files = {lines.file_of(test) for test in tests}
        killing = lines.file_of(found.killer)
        states = {file: self._states[file] for file in sorted({killing} & files or files)}
        line = mutant.key, *found, states, mutant.place, mutant.edit
        with self._path.open("ab") as target:
            target.write(orjson.dumps(line) + b"\n")
        self._note(*line)

    def _is_open(self, stage: stages.Stage, mutant: mutation.Mutant, found: Result) -> bool:
        files = {lines.file_of(test) for test in self._tests(stage, mutant)}
        return stage not in found.lived or not files <= found.lived[stage]

    def _note(
        self, key: str, stage: str, killer: str, late: str, seconds: float, states: Mapping[str, str], *_: str
    ) -> None:
        result = self.results.setdefault(key, Result())
        same = {file for file, state in states.items() if self._states.get(file) == state}
        if killer and len(same) < len(states):
            result.before = killer
            return
        if late and len(same) < len(states):
            return
        result.seconds += seconds
        result.late = result.late or late
        if killer:
            result.stage, result.killer = stage, killer
        else:
            result.lived.setdefault(stage, set()).update(same)
