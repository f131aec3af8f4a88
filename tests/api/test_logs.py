"""What every component logs: one line for each record, in either format."""

import argparse
import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from cotenant_api import logs

ODD = 'two\nlines "quoted", \u00fc'


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    found = logging.getLogger()
    before, level = found.handlers[:], found.level
    yield found
    found.handlers[:] = before
    found.setLevel(level)


def record(message: str, *, failed: bool = False) -> logging.LogRecord:
    info = sys.exc_info() if failed else None
    return logging.LogRecord("cotenant_extender.x", logging.WARNING, "", 0, message, (), info)


def failed() -> logging.LogRecord:
    try:
        int("no number")
    except ValueError:
        return record("failed", failed=True)
    raise AssertionError


def test_text_is_one_line_whatever_the_message_holds() -> None:
    text = logs.Text().format(record(ODD))
    assert text.count("\n") == 0
    assert text.endswith('level=warning logger=extender.x message="two\\nlines \\"quoted\\", \u00fc"')


def test_json_is_one_line_and_holds_the_message() -> None:
    text = logs.JSON().format(record(ODD))
    assert text.count("\n") == 0
    found = json.loads(text)
    assert found.pop("ts").endswith("+00:00")
    assert found == {"level": "warning", "logger": "extender.x", "msg": ODD}


def test_a_failure_is_told_with_its_trace_on_the_same_line() -> None:
    text = logs.Text().format(failed())
    assert text.count("\n") == 0
    assert "ValueError: invalid literal" in text
    assert "ValueError: invalid literal" in json.loads(logs.JSON().format(failed()))["error"]


@pytest.mark.parametrize(
    ("arguments", "start"),
    [([], "time="), (["--logging-format", "text"], "time="), (["--logging-format=json"], '{"ts": ')],
)
def test_everything_goes_to_one_stream_as_the_command_line_says(
    root: logging.Logger, arguments: list[str], start: str
) -> None:
    parser = argparse.ArgumentParser()
    logs.add_argument(parser)
    stream = io.StringIO()
    logs.configure(parser.parse_args(arguments).logging_format, stream=stream)
    logging.getLogger("cotenant_extender.y").info("hello")
    logging.getLogger("another").debug("too much")
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(start)
    assert "hello" in line


def test_another_format_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    logs.add_argument(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--logging-format", "xml"])
    said = capsys.readouterr().err
    assert "text" in said
    assert "json" in said
