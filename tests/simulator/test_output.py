"""What every experiment's command line does with its results: progress, JSON, HTML, Markdown."""

import argparse
import contextlib
import functools
import io
import json
import os
import pty
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cotenant_api import errors
from cotenant_simulator.commands import output
from simulator import pages_kit as kit

SECTION = "cotenant simulate x"


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    output.configure(parser)
    return parser.parse_args(["--processes", "1", *argv])


def doubled(number: int) -> int:
    return 2 * number


def done(names: list[str]) -> list[int]:
    tasks = [functools.partial(doubled, number) for number in range(len(names))]
    return output.runs(tasks, arguments(), title=SECTION, names=names)


def whole(terminal: io.RawIOBase | io.FileIO) -> str:
    """All that was written to a terminal whose other end is closed; it comes in pieces of any size."""
    found = b""
    with contextlib.suppress(OSError):
        while piece := terminal.read(65_536):
            found += piece
    return found.decode()


def test_where_there_is_no_terminal_progress_is_a_plain_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert done(["a", "[bold]b"]) == [0, 2]
    told = capsys.readouterr()
    assert told.err == "cotenant simulate x: 1/2: a\ncotenant simulate x: 2/2: [bold]b\n"
    assert told.out == ""


def test_colours_that_are_asked_for_make_no_terminal_of_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done(["a"])
    assert capsys.readouterr().err == "cotenant simulate x: 1/1: a\n"


def test_a_terminal_shows_a_bar_and_clears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as read:
        with os.fdopen(theirs, "w") as terminal:
            monkeypatch.setattr(sys, "stderr", terminal)
            monkeypatch.setenv("TERM", "xterm")
            assert done(["a", "[bold]b"]) == [0, 2]
        told = whole(read)
    assert "2/2" in told
    assert "[bold]b" in told
    assert told.endswith("\x1b[2K")


def test_a_document_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(kit.whole(), arguments("--json"), section=SECTION)
    assert capsys.readouterr().out == "{}\n"


def test_several_documents_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(kit.whole(), arguments("--json"), section=SECTION, documents=[{"a": 1}, {"a": 2}])
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"a": 1}, {"a": 2}]


def test_a_document_without_a_number_is_no_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        output.emit(kit.whole(), arguments("--json"), section=SECTION, documents=[{"a": float("nan")}])


def test_a_page_goes_to_all_that_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, section = tmp_path / "new" / "page.html", tmp_path / "docs.md"
    section.write_text(f"<!-- begin: {SECTION} -->\nold\n<!-- end: {SECTION} -->\n", encoding="utf-8")
    asked = arguments("--html", str(page), "--write", str(section))
    output.require(asked, section=SECTION)
    output.emit(kit.whole(), asked, section=SECTION)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "| Slot | 43.1 | 100 |" in section.read_text(encoding="utf-8")
    assert "A table (published)" in capsys.readouterr().out


def test_what_cannot_be_written_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"--write: .*cannot be read"):
        output.require(arguments("--write", str(tmp_path / "none.md")), section=SECTION)
    with pytest.raises(errors.InvalidInputError, match="--processes: 0: must be at least 1"):
        output.require(arguments("--processes", "0"), section=SECTION)


def test_a_page_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(errors.InvalidInputError, match=r"--html: .*cannot be written"):
        output.emit(kit.whole(), arguments("--html", str(tmp_path / "file" / "page.html")), section=SECTION)


def test_a_folder_holds_tables_page_document_and_every_figure_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "other"):
        output.emit(kit.whole(), arguments("--folder", str(tmp_path / name)), section=SECTION)
    one, other = ({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "other"))
    assert one == other
    figures = sorted(name for name in one if name.endswith(".svg"))
    assert sorted(one) == sorted(["README.md", "page.html", "page.json", *figures])
    assert [f"({name})" in one["README.md"].decode() for name in figures] == [True] * 6


def test_a_figure_in_a_folder_is_a_whole_file_that_needs_no_page_around_it(tmp_path: Path) -> None:
    output.emit(kit.hostile(), arguments("--folder", str(tmp_path)), section=SECTION)
    for file in tmp_path.glob("*.svg"):
        assert ET.fromstring(file.read_bytes()).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314
        assert b"currentColor" not in file.read_bytes()
    outside_code = re.sub("`[^`]*`", "", (tmp_path / "README.md").read_text())
    assert "<script" not in outside_code
