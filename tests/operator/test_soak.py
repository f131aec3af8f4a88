"""`make soak-operator` runs the random histories that the suite runs, and says how to repeat the one that fails."""

from pathlib import Path

import pytest

from operator_kit import soak

PROPERTY = """
from hypothesis import given, strategies as st

@given(st.integers(0, 1000))
def test_numbers_are_small(number: int) -> None:
    assert number < {most}
"""


def play(folder: Path, *, most: int) -> int:
    (folder / "test_numbers.py").write_text(PROPERTY.format(most=most), encoding="utf-8")
    arguments = ["--seeds", "3-4", "--histories", "200", "--jobs", "1"]
    return soak.main(arguments, folder=folder, tests=[("test_numbers", "test_numbers_are_small")])


def test_the_properties_that_it_runs_are_there() -> None:
    for name, test in soak.TESTS:
        assert f"def {test}(" in (soak.FOLDER / f"{name}.py").read_text(encoding="utf-8")


def test_what_holds_ends_well_and_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert play(tmp_path, most=1001) == 0
    assert "400 of 400 histories" in capsys.readouterr().out


def test_the_first_failing_history_ends_it_with_how_to_repeat_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(tmp_path, most=500) == 1
    told = capsys.readouterr().out
    assert "number=500" in told
    assert "run it again: make soak-operator SEEDS=3" in told
