"""A thread that shows co-tenants that this process lives. It ends with the process, and a fork does not inherit it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cotenant_runtime import demand


class Heartbeat:
    """Calls a function every quarter of a second until it is stopped."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cotenant-heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for a beat that is under way, unless the thread itself asks."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(demand.HEARTBEAT_NS / 1e9):
            self._beat()
