"""Calls of NVML in a thread, one at a time: whoever asks gets an answer in time, or hears that the driver hangs."""

import asyncio
import functools
import queue
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, TypeVar

from cotenant_deviceplugin.gpus import session

T = TypeVar("T")


class HangsError(session.DriverAwayError):
    """A call has not come back in time; it may never do."""


class Calls:
    """One thread, which the process does not wait for at its end: its call may hang.

    Args:
        name: of the thread.
        seconds: how long a call may take.
    """

    def __init__(self, name: str, *, seconds: float) -> None:
        self._name, self._seconds = name, seconds
        self._works: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._hanging: asyncio.Future[Any] | None = None

    async def call(self, work: Callable[[], T]) -> T:
        """Do it in the thread. While a call hangs none is added: they would all wait behind it. Raises HangsError."""
        if self._hanging is not None and not self._hanging.done():
            raise HangsError("the NVIDIA driver still does not answer")
        if self._thread is None:
            # None of concurrent.futures' threads: Python joins those at its end, for however long they hang.
            self._thread = threading.Thread(target=self._go_on, name=self._name, daemon=True)
            self._thread.start()
        outcome: futures.Future[T] = futures.Future()
        self._works.put(functools.partial(_do, work, outcome))
        future = asyncio.wrap_future(outcome)
        future.add_done_callback(_seen)
        done, _ = await asyncio.wait({future}, timeout=self._seconds)
        if not done:
            self._hanging = future
            raise HangsError(f"the NVIDIA driver has not answered for {self._seconds:g} s")
        return future.result()

    def close(self) -> None:
        """Take no more calls."""
        self._works.put(None)

    def _go_on(self) -> None:
        while (work := self._works.get()) is not None:
            work()


def _do(work: Callable[[], T], outcome: "futures.Future[T]") -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001  # whoever asked raises it
        outcome.set_exception(error)
    else:
        outcome.set_result(result)


def _seen(future: asyncio.Future[Any]) -> None:
    """Drop what a call came to that nobody waits for any more: it hung, or whoever asked was cancelled."""
    if not future.cancelled():
        future.exception()
