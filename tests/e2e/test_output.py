"""How a benchmark's figures come out."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e.commands import output

COMMAND = "make bench-toy"
LINES = ["| a |", "|---|", "| 1 |"]


def parsed(*flags: str) -> Namespace:
    parser = ArgumentParser()
    output.add(parser)
    return parser.parse_args(flags)


def show(arguments: Namespace) -> None:
    output.show(arguments, lines=LINES, document={"v": 1}, command=COMMAND)


def test_tables_are_printed_unless_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    show(parsed())
    assert capsys.readouterr().out.splitlines() == LINES
    show(parsed("--json"))
    assert json.loads(capsys.readouterr().out) == {"v": 1}


def test_tables_go_into_the_page_between_the_markers_also_beside_json(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n<!-- begin: {COMMAND} -->\nold\n<!-- end: {COMMAND} -->\nafter\n")
    arguments = parsed("--json", "--write", str(page))
    output.require_page(arguments, command=COMMAND)
    show(arguments)
    text = page.read_text()
    assert "\n".join(LINES) in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")


def test_a_page_without_a_place_for_the_tables_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    with pytest.raises(errors.InvalidInputError):
        output.require_page(parsed("--write", str(page)), command=COMMAND)


def test_how_far_it_is_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("half")
    assert capsys.readouterr() == ("", "half\n")
