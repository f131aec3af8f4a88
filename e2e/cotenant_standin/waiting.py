"""Waits for what another process does to a file: nothing tells of it, so it is looked at."""

import asyncio
from collections.abc import Callable

POLL_SECONDS = 0.01


async def until(condition: Callable[[], bool]) -> None:
    """Return once the condition holds."""
    while True:
        if condition():
            return
        await asyncio.sleep(POLL_SECONDS)
