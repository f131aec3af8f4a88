"""Labels a folder so that containers may use what is in it, where SELinux is on; elsewhere nothing happens.

A container's processes are of type `container_t` and may use files of type `container_file_t`; a folder below /run
has another. What is made in a labelled folder later has its label, where its maker's level is `s0`.
NVIDIA's MPS daemon labels its pipes the same way (cmd/mps-control-daemon of its device plugin).
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cotenant_api import errors

ATTRIBUTE: Final = "security.selinux"
TYPE: Final = "container_file_t"
LEVEL: Final = "s0"
_OFF: Final = frozenset({errno.ENODATA, errno.ENOTSUP})


def label_for_containers(folder: Path) -> None:
    """Label a folder and all that is in it; make the folder where it is not there.

    Raises:
        PermanentError: SELinux is on and refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in _tree(folder):
            _label(path)
    except OSError as error:
        remedy = "give the pod node.seLinuxOptions of the chart: {type: spc_t, level: s0}"
        raise errors.PermanentError(f"{folder}: SELinux label {TYPE}: {error.strerror}: {remedy}") from error


def labelled(context: str) -> str:
    """Return a context with the type and the level of files that every container may use."""
    user, role, *_ = context.split(":")
    return f"{user}:{role}:{TYPE}:{LEVEL}"


def _label(path: Path) -> None:
    try:
        now = os.getxattr(path, ATTRIBUTE, follow_symlinks=False).rstrip(b"\0").decode()
    except OSError as error:
        if error.errno in _OFF or isinstance(error, FileNotFoundError):
            return
        raise
    wanted = labelled(now)
    if now != wanted:
        os.setxattr(path, ATTRIBUTE, wanted.encode() + b"\0", follow_symlinks=False)


def _tree(folder: Path) -> Iterator[Path]:
    yield folder
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))
