"""Waits for NVML's events of one GPU in a thread of its own, and tells of every XID. Which of them matter: elsewhere.

Each GPU has its own event set and thread: one that hangs while its events are registered keeps no other one unheard.
What happens while nobody is registered (a driver that was away, a GPU that was lost) is not told afterwards: whoever
judges a GPU reads its fields, too. An event may be told twice, never lost, where a GPU is registered anew.
"""

import contextlib
import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterator
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
        renew_seconds: how often a GPU that could not be registered is tried again, and GPUs are counted.
        lost_seconds: how long after a refusal to wait the GPU is registered anew.
        retry_seconds: how long after the driver was found to be away it is asked again.
        late_seconds: how long nobody may have listened before an event is told as one that may be late.
    """

    wait_milliseconds: int = 2000
    renew_seconds: float = 30.0
    lost_seconds: float = 1.0
    retry_seconds: float = session.RETRY_SECONDS
    late_seconds: float = 2.0


DEFAULT_TIMING = Timing()

logger = logging.getLogger(__name__)


@dataclass
class _Registered:
    """An event set with one GPU.

    Attributes:
        address: of the handle, which is the same in every event.
        empty_at: when all that had happened was told; at first, before the GPU was registered.
    """

    events: Any
    gpu: GPUUID
    address: int
    empty_at: float


class Watch:
    """Tells of one GPU's events until it is stopped.

    Args:
        used: the session with the driver; begun anew as often as needed.
        index: of the GPU.
        deliver: called in this thread.
        stop: ends `run` within `wait_milliseconds`, unless a call hangs.
        timing: see there.
    """

    def __init__(
        self,
        used: session.Session,
        index: int,
        *,
        deliver: Callable[[hardware.XIDEvent], None],
        stop: threading.Event,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._session, self._index = used, index
        self._deliver, self._stop, self._timing = deliver, stop, timing

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
                logger.warning("events of GPU %d cannot be waited for: %s", self._index, error)
                self._stop.wait(self._timing.retry_seconds)

    def _follow(self) -> None:
        with contextlib.ExitStack() as sets:
            current = sets.enter_context(self._registered())
            while not self._leaving():
                if current is None:
                    self._rest()
                elif self._wait(current):
                    continue
                else:
                    self._stop.wait(self._timing.lost_seconds)
                current = self._renewed(sets, current)

    def _renewed(self, sets: contextlib.ExitStack, old: _Registered | None) -> _Registered | None:
        """Return a new set first, then what the old one still has: nothing falls in between."""
        with sets.pop_all():
            new = sets.enter_context(self._registered())
            if old is not None:
                # A set that cannot be waited for has nothing more.
                with contextlib.suppress(pynvml.NVMLError):
                    self._tell(old, 0)
        return new

    def _rest(self) -> None:
        """Wait until it is time to register a GPU again that could not be."""
        end = time.monotonic() + self._timing.renew_seconds
        while not self._leaving() and time.monotonic() < end:
            self._stop.wait(min(self._timing.wait_milliseconds / 1000, self._timing.renew_seconds))

    def _wait(self, registered: _Registered) -> bool:
        """Wait once for an event; False: the driver refuses to wait for this set any longer."""
        try:
            self._tell(registered, self._timing.wait_milliseconds)
        except pynvml.NVMLError as error:
            if error.value in session.AWAY:
                raise
            return False
        return True

    def _tell(self, registered: _Registered, timeout_milliseconds: int) -> None:
        """Wait once, and tell all that there is. It is late where nobody listened before, or the call hung."""
        begun = time.monotonic()
        event = _next(registered, timeout_milliseconds)
        unheard = begun - registered.empty_at
        overdue = time.monotonic() - begun - timeout_milliseconds / 1000
        late = max(unheard, overdue) > self._timing.late_seconds
        while event is not None:
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                uuid = registered.gpu if _address(event.device) == registered.address else None
                self._deliver(hardware.XIDEvent(uuid=uuid, xid=int(event.eventData), late=late))
            event = _next(registered, 0)
        registered.empty_at = time.monotonic()

    def _leaving(self) -> bool:
        return self._stop.is_set() or self._session.broken

    @contextlib.contextmanager
    def _registered(self) -> Iterator[_Registered | None]:
        """None: this GPU tells no events, or is lost; its readings are all there is."""
        events = pynvml.nvmlEventSetCreate()
        try:
            yield self._register(events)
        finally:
            pynvml.nvmlEventSetFree(events)

    def _register(self, events: Any) -> _Registered | None:
        begun = time.monotonic()
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(self._index)
            kinds = pynvml.nvmlDeviceGetSupportedEventTypes(handle) & pynvml.nvmlEventTypeXidCriticalError
            if not kinds:
                logger.debug("GPU %d tells no events", self._index)
                return None
            gpu = GPUUID(pynvml.nvmlDeviceGetUUID(handle))
            pynvml.nvmlDeviceRegisterEvents(handle, kinds, events)
        except pynvml.NVMLError as error:
            if error.value in session.AWAY:
                raise
            logger.debug("GPU %d tells no events: %s", self._index, error)
            return None
        logger.info("waiting for events of GPU %d", self._index)
        return _Registered(events, gpu, _address(handle), empty_at=begun)


def _next(registered: _Registered, timeout_milliseconds: int) -> Any | None:
    """Return the next event; None: there was none in that time."""
    try:
        return pynvml.nvmlEventSetWait_v2(registered.events, timeout_milliseconds)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_TIMEOUT:
            raise
        return None


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
