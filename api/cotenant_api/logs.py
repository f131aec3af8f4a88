"""What every component logs: one line for each record, as `key=value` pairs or as JSON. The standard library alone."""

import argparse
import enum
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO


class Format(enum.StrEnum):
    """How a record is written, by the words of Kubernetes' own components."""

    TEXT = "text"
    JSON = "json"


class Text(logging.Formatter):
    """time=... level=... logger=... message="..." and, after a failure, error="..."."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        message, error = _told(self, record)
        level, logger = record.levelname.lower(), _logger(record)
        line = f"time={_time(record)} level={level} logger={logger} message={_quoted(message)}"
        return line if error is None else f"{line} error={_quoted(error)}"


class JSON(logging.Formatter):
    """One object with `ts`, `level`, `logger`, `msg` and, after a failure, `error`, as Kubernetes' controllers do."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        message, error = _told(self, record)
        found = {"ts": _time(record), "level": record.levelname.lower(), "logger": _logger(record), "msg": message}
        return _quoted(found if error is None else {**found, "error": error})


_FORMATTERS: Final = {Format.TEXT: Text, Format.JSON: JSON}


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Let the command line say how records are written."""
    parser.add_argument(
        "--logging-format",
        type=Format,
        choices=list(Format),
        default=Format.TEXT,
        help="how log records are written, one a line (default: %(default)s)",
    )


def configure(logging_format: Format = Format.TEXT, *, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Write everything that the process logs to one stream; None: standard error."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(_FORMATTERS[logging_format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def _told(formatter: logging.Formatter, record: logging.LogRecord) -> tuple[str, str | None]:
    """Return the message, and the traceback of a failure."""
    return record.getMessage(), formatter.formatException(record.exc_info) if record.exc_info else None


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _logger(record: logging.LogRecord) -> str:
    return record.name.removeprefix("cotenant_")


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
