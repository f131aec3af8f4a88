"""A step that is done again and again beside a block, in a thread of its own."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

_END_SECONDS: Final = 60
"""How long the last step may take."""


class Background(AbstractContextManager["Background"]):
    """Does the step for the block; the first that fails is the last, and the end of the block raises what it raised.

    Args:
        step: what is done.
        every_seconds: how long it is waited before each.
    """

    def __init__(self, step: Callable[[], object], *, every_seconds: float) -> None:
        self._step, self._every_seconds = step, every_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self.failure: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(timeout=_END_SECONDS)
        if kind is None and self.failure is not None:
            raise self.failure

    def _repeat(self) -> None:
        try:
            while not self._stopped.wait(self._every_seconds):
                self._step()
        except Exception as error:  # noqa: BLE001 - raised where the block ends
            self.failure = error
