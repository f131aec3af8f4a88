"""Calls of NVML in a thread, one at a time: whoever asks gets an answer in time, or hears that the driver hangs."""

import asyncio
from collections.abc import Callable
from concurrent import futures
from typing import Any, TypeVar

from cotenant_deviceplugin.gpus import session

T = TypeVar("T")


class HangsError(session.DriverAwayError):
    """A call has not come back in time; it may never do."""


class Calls:
    """One thread.

    Args:
        name: of the thread.
        seconds: how long a call may take.
    """

    def __init__(self, name: str, *, seconds: float) -> None:
        self._seconds = seconds
        self._thread = futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._hanging: asyncio.Future[Any] | None = None

    async def call(self, work: Callable[[], T]) -> T:
        """Do it in the thread. While a call hangs none is added: they would all wait behind it. Raises HangsError."""
        if self._hanging is not None and not self._hanging.done():
            raise HangsError("the NVIDIA driver still does not answer")
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(_seen)
        done, _ = await asyncio.wait({future}, timeout=self._seconds)
        if not done:
            self._hanging = future
            raise HangsError(f"the NVIDIA driver has not answered for {self._seconds:g} s")
        return future.result()

    def close(self) -> None:
        """Take no more calls."""
        self._thread.shutdown(wait=False)


def _seen(future: asyncio.Future[Any]) -> None:
    """Drop what a call came to that nobody waits for any more: it hung, or whoever asked was cancelled."""
    if not future.cancelled():
        future.exception()
