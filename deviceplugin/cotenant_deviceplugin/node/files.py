"""A small file that is replaced as a whole, so that a crash leaves the old one or the new one."""

import os
from pathlib import Path

from cotenant_api import errors

DELAY_SECONDS = 5.0


def replace(path: Path, text: str) -> None:
    """On disk when this returns; it blocks for as long as the disk does. Raises TemporaryError."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise errors.TemporaryError(f"{path}: {error.strerror}", delay_seconds=DELAY_SECONDS) from error


def read(path: Path) -> str | None:
    """The text; None: there is no such file. Raises TemporaryError."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.TemporaryError(f"{path}: {error.strerror}", delay_seconds=DELAY_SECONDS) from error
