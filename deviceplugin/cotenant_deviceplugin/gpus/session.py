"""A session with NVML: one for the process, shared by its threads, begun anew after the driver was away.

NVML counts nvmlInit and nvmlShutdown: as long as one thread holds on, the library keeps the files of the driver that
is gone. So nobody calls them but this module, and a session that broke ends when its last user has left.

A user whose call hangs does not leave, and nvmlShutdown must not run beside it. The other users then go on in the
session that broke: that helps where one call failed for once. Where the driver was replaced, their calls are refused
until the hanging call has returned.
"""

import contextlib
import ctypes
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pynvml

from cotenant_api import errors

T = TypeVar("T")

RETRY_SECONDS = 5.0
LEAVE_SECONDS = 3.0
"""How long users are waited for that should leave: longer than any of them waits for an event."""
STAND_IN = "stand-in"
"""A library whose driver's version says so is none of NVIDIA's: nothing behind it is a GPU."""

AWAY = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
"""Refusals after which nothing but a new session helps."""

logger = logging.getLogger(__name__)


class DriverAwayError(errors.TemporaryError):
    """The driver cannot be asked anything."""

    def __init__(self, message: str) -> None:
        super().__init__(message, delay_seconds=RETRY_SECONDS)


class Session:
    """Begins with the first use.

    Args:
        library: path of `libnvidia-ml.so.1`; None: the dynamic linker finds it (LD_LIBRARY_PATH, ld.so.cache). The
            linker knows a loaded library by its name, so that pynvml gets the one that is loaded first.
        leave_seconds: how long the users of a session that broke, or ends, are waited for.
    """

    def __init__(self, *, library: Path | None = None, leave_seconds: float = LEAVE_SECONDS) -> None:
        self._library, self._leave_seconds = library, leave_seconds
        self._changed = threading.Condition()
        self._users = 0
        self._open = False
        self._broken = False
        self._stuck = False
        """Whether the session went on although it broke."""
        self._driver_version = ""
        self._number = 0

    @property
    def simulated(self) -> bool:
        """Whether the driver is a stand-in; False until it has been asked once."""
        return STAND_IN in self._driver_version

    @property
    def number(self) -> int:
        """How many sessions have begun: handles of another number mean nothing."""
        return self._number

    @property
    def broken(self) -> bool:
        """Whether its users should leave, so that it can begin anew."""
        return self._broken

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Guard a block that calls NVML. One that fails because the driver is away breaks the session.

        Raises:
            DriverAwayError: with the reason.
        """
        with self._changed:
            if self._broken:
                self._mend()
            self._begin()
            self._users += 1
        try:
            yield
        except pynvml.NVMLError as error:
            if error.value not in AWAY:
                raise
            self._broken = True
            raise away(error) from error
        except DriverAwayError:
            self._broken = True
            raise
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """End it when its last user has left; leave it to the process's end where one does not."""
        with self._changed:
            self._broken = True
            if self._changed.wait_for(lambda: not self._users, self._leave_seconds):
                self._end()
            else:
                logger.warning("a call of NVML hangs: the session with the driver ends with this process")

    def _mend(self) -> None:
        """End a broken session, so that the next one begins; go on in it where a user does not leave."""
        left = self._changed.wait_for(lambda: not (self._broken and self._users), self._leave_seconds)
        if not self._broken:
            return
        if left:
            self._end()
            return
        if not self._stuck:
            logger.warning("a call of NVML hangs: the session with the driver cannot begin anew, and goes on")
        self._stuck, self._broken = True, False
        self._changed.notify_all()

    def _begin(self) -> None:
        if self._open:
            return
        try:
            if self._library is not None:
                ctypes.CDLL(str(self._library), mode=ctypes.RTLD_GLOBAL)
            pynvml.nvmlInit()
        except (OSError, pynvml.NVMLError) as error:
            raise away(error) from error
        self._open = True
        self._number += 1
        try:
            self._driver_version = str(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError as error:
            self._broken = True
            raise away(error) from error

    def _end(self) -> None:
        self._broken = self._stuck = False
        if self._open:
            self._open = False
            # It was initialised by us, so the only refusal is that it is not: then there is nothing to end.
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()


def away(error: Exception) -> DriverAwayError:
    """Return the driver cannot be asked: why, and what helps where waiting does not."""
    if isinstance(error, pynvml.NVMLError) and error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return DriverAwayError("the NVIDIA driver was replaced by another version: restart the node agent, too")
    return DriverAwayError(f"the NVIDIA driver cannot be asked: {errors.shortened(str(error))}")


def system(function: Callable[[], T]) -> T:
    """Return a call about no GPU: whatever it refuses, the driver cannot be asked."""
    try:
        return function()
    except pynvml.NVMLError as error:
        raise away(error) from error
