"""A small file that is replaced as a whole, so that a crash leaves the old one or the new one."""

import os
from pathlib import Path

from cotenant_api import errors

DELAY_SECONDS = 1.0


def replace(path: Path, text: str, *, partial: Path | None = None) -> None:
    """On disk when this returns; it blocks for as long as the disk does. Raises TemporaryError.

    Args:
        path: the file.
        text: its new content.
        partial: in the same folder, written first; by default the file's name with `.partial` behind it.
    """
    partial = partial or path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise errors.TemporaryError(f"{path}: {error.strerror}", delay_seconds=DELAY_SECONDS) from error


def sync_folder(folder: Path) -> None:
    """Bring a folder to disk: a rename is there only when its folder is. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: Path) -> str | None:
    """Return the text; None: there is no such file. Raises TemporaryError."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.TemporaryError(f"{path}: {error.strerror}", delay_seconds=DELAY_SECONDS) from error
