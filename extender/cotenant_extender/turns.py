"""Does work in steps on the event loop, so that requests are answered between two steps."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from cotenant_extender import steps
from cotenant_extender.ledger import ledger

T = TypeVar("T")

FEW = 8
"""So many nodes are read at once by whoever asks for the fleet."""


async def run(work: steps.Steps[T], *, wanted: Callable[[], bool] = lambda: True) -> T | None:
    """Do the steps one by one, and return the result; None as soon as the work is not wanted any more."""
    while wanted():
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
    work.close()
    return None


class Freshness:
    """Waits until the ledger's fleet is current. However many wait, the work is done once."""

    def __init__(self, source: ledger.Ledger) -> None:
        self._ledger = source
        self._running: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Wait until at most a few nodes have yet to be read. Without a policy there is nothing to wait for."""
        while self._ledger.behind > FEW:
            if self._running is None or self._running.done():
                self._running = asyncio.create_task(self._advance())
            await asyncio.shield(self._running)

    async def _advance(self) -> None:
        while self._ledger.behind > FEW:
            self._ledger.advance()
            await asyncio.sleep(0)
