"""The folder that tenants get of a GPU's MPS daemon: a hard link to the socket of its clients, and nothing else of it.

In the daemon's own folder lies `control_privileged`, by which a tenant that is root in its container sets defaults and
ends the daemon. There, too, is the FIFO `log`: a record of 8000 bytes in it writes over the daemon's stack, which is a
process of the host's root (drivers 570, 580). Of that folder libcuda of drivers 550, 570 and 580 names `control`,
`control_privileged` and `log`; it connects to `control` alone, also as root (docs/node-agent.md). So that a client that
would say something can, its `log` is a link to /dev/null.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import layout
from cotenant_deviceplugin.mps.control import NoAnswerError

OFFERED: Final = ("control",)
SILENT: Final = "log"
_TRAVERSABLE: Final = 0o755
_NEW: Final = ".new"


def offer(root: Path, gpu: GPUUID) -> None:
    """Make the folder show what the daemon has now. It stays the same one: running containers have it mounted.

    Raises:
        NoAnswerError: the files cannot be linked.
    """
    pipe, folder = layout.pipe(root, gpu), layout.client_pipe(root, gpu)
    try:
        # Not its parents: of a GPU that was given back nothing is left.
        folder.mkdir(exist_ok=True)
        folder.chmod(_TRAVERSABLE)
        for name in OFFERED:
            _link(pipe / name, folder / name)
        _silence(folder / SILENT)
    except OSError as error:
        message = f"{folder}: the daemon's sockets cannot be offered to clients: {error.strerror}"
        raise NoAnswerError(message, delay_seconds=1) from error


def _silence(path: Path) -> None:
    """Make it a link to /dev/null, also where an earlier version has offered the FIFO."""
    if path.is_symlink():
        return
    new = path.with_name(path.name + _NEW)
    new.unlink(missing_ok=True)
    new.symlink_to(os.devnull)
    new.replace(path)


def _link(there: Path, here: Path) -> None:
    """Make `here` the file that `there` is; where `there` is none, neither is `here`."""
    try:
        if here.exists() and here.samefile(there):
            return
        new = here.with_name(here.name + _NEW)
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        os.link(there, new)
        new.replace(here)
    except FileNotFoundError:
        here.unlink(missing_ok=True)
