"""What is shown while something is built."""

import io

import pytest
from rich.console import Console

from cotenant_e2e import progress
from cotenant_e2e.progress import LiveProgress, PlainProgress


def test_plain_lines_name_the_step_and_the_time_spent() -> None:
    out, seconds = io.StringIO(), iter([0.0, 43.4])
    with PlainProgress(out, lambda: next(seconds)).step("building etcd (1 of 6)"):
        pass
    assert out.getvalue().splitlines() == ["building etcd (1 of 6) ...", "building etcd (1 of 6): done in 43 s"]


def test_a_long_step_reports_every_minute() -> None:
    out, seconds = io.StringIO(), iter([0.0, 30.0, 61.0, 90.0, 130.0, 140.0])
    with PlainProgress(out, lambda: next(seconds)).step("building") as detail:
        for count in (1, 2, 3, 4):
            detail(f"{count} packages")
    assert out.getvalue().splitlines()[1:-1] == ["building: 2 packages, 61 s", "building: 4 packages, 130 s"]


def test_a_failed_step_is_not_called_done() -> None:
    out = io.StringIO()
    with pytest.raises(ZeroDivisionError), PlainProgress(out).step("building"):
        _ = 1 // 0
    assert "done" not in out.getvalue()


def test_a_terminal_sees_the_step_and_its_detail() -> None:
    out = io.StringIO()
    with LiveProgress(Console(file=out)).step("building etcd") as detail:
        detail("12 packages")
    assert "building etcd" in out.getvalue()
    assert "12 packages" in out.getvalue()


def test_what_is_printed_meanwhile_stands_above_the_row() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with progress.of_console(console).step("building etcd"):
        console.print("a table")
    assert out.getvalue().rindex("a table") < out.getvalue().rindex("building etcd")


def test_what_is_no_terminal_gets_plain_lines() -> None:
    assert isinstance(progress.of_terminal(io.StringIO()), PlainProgress)
    assert isinstance(progress.of_console(Console(file=io.StringIO())), PlainProgress)
