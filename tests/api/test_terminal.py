"""What a command writes where standard output cannot take it: escapes, an error of one line, or nothing."""

import argparse
import io
import json
import sys
import types
from importlib import metadata
from pathlib import Path

import pytest

from cotenant_api import cli, errors, terminal


def say(_: argparse.Namespace) -> int:
    print("x")
    return 0


def test_characters_that_cannot_be_encoded_are_written_as_jsons_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "\N{LATIN SMALL LETTER E WITH ACUTE}\N{HORIZONTAL ELLIPSIS}\N{GRINNING FACE}"
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(data, encoding="ascii"))
    terminal.prepare()
    assert terminal.write(words)
    assert data.getvalue() == rb"\u00e9\u2026\ud83d\ude00"
    assert json.loads(b'"' + data.getvalue() + b'"') == words


def test_output_that_takes_no_more_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(errors.PermanentError, match="standard output cannot be written: No space left on device"):
            terminal.write("x")


def test_a_command_that_prints_tells_of_output_that_takes_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = types.ModuleType("says")
    vars(command).update(SUMMARY="say", configure=str, run=say)
    monkeypatch.setitem(sys.modules, "says", command)
    monkeypatch.setattr(cli, "entries", lambda: {"say": metadata.EntryPoint("say", "says", cli.GROUP)})
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["say"]) == 1
    assert capsys.readouterr().err == "cotenant: say: standard output cannot be written: No space left on device\n"


def test_closed_output_is_told_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["completion", "bash"]) == 1
    assert capsys.readouterr().err.startswith("cotenant: completion: standard output is closed: send it to")
