"""Waits for NVML's events in a thread of its own, and tells of every XID. Which of them matter is decided elsewhere.

What happens while nobody is registered (a driver that was away, a GPU that was lost) is not told afterwards: whoever
judges a GPU reads its fields, too. An event may be told twice, never lost, where GPUs are registered anew.
"""

import contextlib
import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pynvml

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus import hardware, session


@dataclass(frozen=True, kw_only=True)
class Timing:
    """When the thread looks up.

    Attributes:
        wait_milliseconds: how long one call may last, and so how soon the thread notices that it shall stop.
        renew_seconds: how often a GPU that could not be registered is tried again.
        lost_seconds: how long after a refusal to wait the GPUs are registered anew.
        retry_seconds: how long after the driver was found to be away it is asked again.
    """

    wait_milliseconds: int = 1000
    renew_seconds: float = 30.0
    lost_seconds: float = 1.0
    retry_seconds: float = session.RETRY_SECONDS


DEFAULT_TIMING = Timing()

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Registered:
    """An event set; `gpus`: the UUID by the address of the handle, which is the same in every event."""

    events: Any
    gpus: Mapping[int, GPUUID]
    complete: bool


class Watch:
    """Tells of events until it is stopped.

    Args:
        used: the session with the driver; begun anew as often as needed.
        deliver: called in this thread.
        stop: ends `run` within `wait_milliseconds`.
        timing: see there.
    """

    def __init__(
        self,
        used: session.Session,
        *,
        deliver: Callable[[hardware.XIDEvent], None],
        stop: threading.Event,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._session, self._deliver, self._stop, self._timing = used, deliver, stop, timing

    def run_to_the_end(self, failed: Callable[[BaseException], None]) -> None:
        """`run`; what it raises is handed over, because nobody looks into a thread."""
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001  # whoever iterates raises it
            failed(error)

    def run(self) -> None:
        """Until stopped; survives a driver that goes and comes back."""
        while not self._stop.is_set():
            try:
                with self._session.used():
                    self._follow()
            except session.DriverAwayError:
                self._stop.wait(self._timing.retry_seconds)
            except pynvml.NVMLError as error:
                logger.warning("events of the GPUs cannot be waited for: %s", error)
                self._stop.wait(self._timing.retry_seconds)

    def _follow(self) -> None:
        with contextlib.ExitStack() as sets:
            current = sets.enter_context(_registered())
            logger.info("waiting for events of %d GPUs", len(current.gpus))
            renew_at = time.monotonic() + self._timing.renew_seconds
            while not self._leaving():
                lost = not self._wait(current)
                if lost:
                    self._stop.wait(self._timing.lost_seconds)
                if lost or (not current.complete and time.monotonic() >= renew_at):
                    current = self._renewed(sets, current)
                    renew_at = time.monotonic() + self._timing.renew_seconds

    def _renewed(self, sets: contextlib.ExitStack, old: _Registered) -> _Registered:
        """Return a new set first, then what the old one still has: nothing falls in between."""
        with sets.pop_all():
            new = sets.enter_context(_registered())
            while self._tell(old, timeout_milliseconds=0):
                continue
        return new

    def _wait(self, registered: _Registered) -> bool:
        """Wait once for an event; False: the driver refuses to wait for this set any longer."""
        if not registered.gpus:
            self._stop.wait(self._timing.wait_milliseconds / 1000)
            return True
        try:
            self._next(registered, self._timing.wait_milliseconds)
        except pynvml.NVMLError as error:
            if error.value in session.AWAY:
                raise
            return False
        return True

    def _tell(self, registered: _Registered, *, timeout_milliseconds: int) -> bool:
        """Return whether there was an event; a set that cannot be waited for has none."""
        try:
            return self._next(registered, timeout_milliseconds)
        except pynvml.NVMLError:
            return False

    def _next(self, registered: _Registered, timeout_milliseconds: int) -> bool:
        try:
            event = pynvml.nvmlEventSetWait_v2(registered.events, timeout_milliseconds)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_TIMEOUT:
                raise
            return False
        if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
            uuid = registered.gpus.get(_address(event.device))
            self._deliver(hardware.XIDEvent(uuid=uuid, xid=int(event.eventData)))
        return True

    def _leaving(self) -> bool:
        return self._stop.is_set() or self._session.broken


@contextlib.contextmanager
def _registered() -> Iterator[_Registered]:
    count = session.system(pynvml.nvmlDeviceGetCount)
    events = pynvml.nvmlEventSetCreate()
    try:
        gpus = dict(found for index in range(count) if (found := _register(index, events)) is not None)
        yield _Registered(events, gpus, complete=len(gpus) == count)
    finally:
        pynvml.nvmlEventSetFree(events)


def _register(index: int, events: Any) -> tuple[int, GPUUID] | None:
    """None: this GPU tells no events, or is lost; its readings are all there is."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        kinds = pynvml.nvmlDeviceGetSupportedEventTypes(handle) & pynvml.nvmlEventTypeXidCriticalError
        if not kinds:
            return None
        uuid = GPUUID(pynvml.nvmlDeviceGetUUID(handle))
        pynvml.nvmlDeviceRegisterEvents(handle, kinds, events)
    except pynvml.NVMLError as error:
        if error.value in session.AWAY:
            raise
        logger.debug("GPU %d tells no events: %s", index, error)
        return None
    return _address(handle), uuid


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
