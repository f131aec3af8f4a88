"""What earlier runs found is believed while sources and tests are as they were."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mutants import kept, lines, mutation, stages, trials

MUTANT = mutation.Mutant(group="queue", name="f", file="x.py", first=1, last=1, old="a", new="b", content="b")
STATES = {"a.py": "1", "b.py": "1", lines.SIMULATION: "1"}
TESTS: Mapping[stages.Stage, Sequence[str]] = {
    stages.Stage.TESTS: ["a.py::t", "a.py::u", "b.py::t"],
    stages.Stage.SLOW: [],
    stages.Stage.SIMULATION: ["seed 4"],
}


def known(folder: Path, **states: str) -> kept.Kept:
    now = STATES | {f"{name}.py": state for name, state in states.items()}
    return kept.Kept(folder / "results.jsonl", now, lambda stage, _: TESTS[stage])


def tried(here: kept.Kept, stage: stages.Stage, killer: str = "", late: str = "") -> None:
    here.add(MUTANT, trials.Verdict(stage, killer, late, 1.0), here.asked(stage, MUTANT))


def open_stages(here: kept.Kept) -> list[stages.Stage]:
    return [stage for stage in stages.Stage if here.left(stage, [MUTANT])]


def test_a_mutant_that_was_killed_is_left_alone_while_the_killing_test_stays(tmp_path: Path) -> None:
    tried(known(tmp_path), stages.Stage.TESTS, "b.py::t")
    assert open_stages(known(tmp_path, a="2")) == []
    assert known(tmp_path, a="2").of(MUTANT).killer == "b.py::t"


@pytest.mark.parametrize("killer", ["b.py::t", "b.py: was not collected"])
def test_what_killed_a_mutant_and_was_changed_is_tried_first(tmp_path: Path, killer: str) -> None:
    tried(known(tmp_path), stages.Stage.TESTS, killer)
    here = known(tmp_path, b="2")
    assert (here.of(MUTANT).stage, here.left(stages.Stage.TESTS, [MUTANT])) == ("", [MUTANT])
    first = "b.py::t" if "::" in killer else "a.py::t"
    assert here.asked(stages.Stage.TESTS, MUTANT)[0] == first


def test_an_import_that_failed_is_believed_while_all_tests_stay(tmp_path: Path) -> None:
    tried(known(tmp_path), stages.Stage.TESTS, "import: ValueError")
    assert known(tmp_path).of(MUTANT).killer == "import: ValueError"
    assert known(tmp_path, a="2").of(MUTANT).killer == ""


def test_a_mutant_that_lived_is_tried_with_the_tests_that_were_changed(tmp_path: Path) -> None:
    for stage in stages.Stage:
        tried(known(tmp_path), stage)
    assert known(tmp_path).of(MUTANT).survived
    here = known(tmp_path, a="2")
    assert open_stages(here) == [stages.Stage.TESTS]
    assert here.asked(stages.Stage.TESTS, MUTANT) == ["a.py::t", "a.py::u"]
    tried(here, stages.Stage.TESTS)
    assert known(tmp_path, a="2").of(MUTANT).survived


def test_a_seed_that_killed_is_tried_first_when_sources_were_changed(tmp_path: Path) -> None:
    tried(known(tmp_path), stages.Stage.SIMULATION, "seed 4: a GPU holds 101")
    assert known(tmp_path).of(MUTANT).stage == "simulation"
    now = dict.fromkeys(STATES, "2")
    here = kept.Kept(tmp_path / "results.jsonl", now, lambda *_: ["seed 2", "seed 4"])
    assert here.asked(stages.Stage.SIMULATION, MUTANT) == ["seed 4", "seed 2"]


def test_running_out_of_cpu_time_is_forgotten_when_any_test_was_changed(tmp_path: Path) -> None:
    tried(known(tmp_path), stages.Stage.TESTS, late="b.py::t")
    assert known(tmp_path).of(MUTANT).late == "b.py::t"
    here = known(tmp_path, a="2")
    assert (here.of(MUTANT).late, here.of(MUTANT).tried) == ("", False)
    assert stages.Stage.TESTS in open_stages(here)
