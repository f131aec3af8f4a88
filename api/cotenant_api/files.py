"""Files that are written whole or not at all."""

import os
from pathlib import Path

from cotenant_api import errors


def replace(path: Path, data: bytes, *, field: str) -> None:
    """Write a file (write, fsync, rename); what was there before stays until the new content is whole on the disk.

    Args:
        path: the file; its folder is made where it is missing.
        data: the whole content.
        field: what the reader of an error knows the path by (`--out`).

    Raises:
        InvalidInputError: the folder cannot be written to.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise errors.InvalidInputError(field, str(path), f"cannot be written: {error.strerror}") from error
