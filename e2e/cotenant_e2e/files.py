"""Files that are written whole or not at all, that only their owner reads, or that lock a folder."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from cotenant_api import errors


def write_private(path: Path, content: bytes) -> None:
    """Replace the file in one step by one that only its owner reads."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def make_directory(path: Path, *, remedy: str) -> None:
    """Make the folder and its parents, unless they are there.

    Raises:
        PermanentError: it cannot be made or written; the message ends with the remedy.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.PermanentError(f"cannot create {path} ({error.strerror}): {remedy}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise errors.PermanentError(f"cannot write to {path}: {remedy}")


def require_space(path: Path, *, mib: int, remedy: str) -> None:
    """Refuse to go on when the file system on which `path` is, or would be, has less than `mib` MiB left.

    Raises:
        PermanentError: it has less; the message ends with the remedy.
    """
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    free_mib = shutil.disk_usage(existing).free >> 20
    if free_mib < mib:
        raise errors.PermanentError(f"{free_mib} MiB are free at {path}, {mib} MiB are needed: {remedy}")


@contextmanager
def locked(path: Path, *, waiting: Callable[[], AbstractContextManager[object]] = nullcontext) -> Iterator[None]:
    """Hold the lock file's lock for the block. It ends with its process, however that ends.

    `waiting`: entered while somebody else holds the lock.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with waiting():
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
