"""A host of its own on this machine: a network namespace on a cable that can be pulled. As root; nothing else uses it.

What a process there has sent when the cable is pulled is not lost: its kernel sends it again, also after the process
closed its socket, and it arrives some time after the cable is put back.
"""

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cotenant_api import errors

HERE: Final = "10.231.7.1"
"""The address of this end of the cable."""
THERE: Final = "10.231.7.2"
_NAMESPACE: Final = "cotenant-wire"
_ENDS: Final = ("cotenant-w0", "cotenant-w1")
_CLONE_NEWNET: Final = 0x40000000


class Wire:
    """The cable. `wire` makes one."""

    def pull(self) -> None:
        """Let nothing through."""
        _ip("link", "set", _ENDS[0], "down")

    def put_back(self) -> None:
        """Let everything through again."""
        _ip("link", "set", _ENDS[0], "up")

    def move_there(self) -> None:
        """Give this thread the network at the other end: every socket that it makes from now on is there.

        Raises:
            PermanentError: the kernel refuses.
        """
        if threading.current_thread() is threading.main_thread():
            raise errors.PermanentError("the main thread stays: a thread that has moved does not come back")
        libc = ctypes.CDLL(None, use_errno=True)
        with (Path("/run/netns") / _NAMESPACE).open() as namespace:
            if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                raise errors.PermanentError(f"setns: {os.strerror(ctypes.get_errno())}")


@contextmanager
def wire() -> Iterator[Wire]:
    """Another host on a cable, for the block.

    Raises:
        PermanentError: the machine does not let it be made.
    """
    _remove()
    try:
        _ip("netns", "add", _NAMESPACE)
        _ip("link", "add", _ENDS[0], "type", "veth", "peer", "name", _ENDS[1])
        _ip("link", "set", _ENDS[1], "netns", _NAMESPACE)
        _ip("addr", "add", f"{HERE}/30", "dev", _ENDS[0])
        _ip("link", "set", _ENDS[0], "up")
        _ip("-n", _NAMESPACE, "addr", "add", f"{THERE}/30", "dev", _ENDS[1])
        _ip("-n", _NAMESPACE, "link", "set", _ENDS[1], "up")
        yield Wire()
    finally:
        _remove()


def _remove() -> None:
    """Remove what is there; nothing is said where there is nothing."""
    if (Path("/sys/class/net") / _ENDS[0]).exists():
        _ip("link", "delete", _ENDS[0])
    if (Path("/run/netns") / _NAMESPACE).exists():
        _ip("netns", "delete", _NAMESPACE)


def _ip(*arguments: str) -> None:
    done = subprocess.run(("ip", *arguments), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise errors.PermanentError(f"ip {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
