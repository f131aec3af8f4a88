"""Logs: one line of `key=value` pairs for each record."""

import json
import logging
from datetime import UTC, datetime
from typing import TextIO


class Lines(logging.Formatter):
    """time=... level=... logger=... message="..." and, after a failure, error="..."."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        logger = record.name.removeprefix("cotenant_")
        message = json.dumps(record.getMessage(), ensure_ascii=False)
        line = f"time={stamp} level={record.levelname.lower()} logger={logger} message={message}"
        if record.exc_info:
            line += f" error={json.dumps(self.formatException(record.exc_info), ensure_ascii=False)}"
        return line


def configure(stream: TextIO, *, level: int) -> None:
    """Everything of the process goes to one stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
