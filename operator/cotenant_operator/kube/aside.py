"""Work on text that a tenant may have made large: beside the event loop, which goes on meanwhile. Decides nothing."""

import asyncio
from collections.abc import Callable
from typing import Final

INLINE_BYTES: Final = 16 * 1024
"""What is not larger takes less than a thread does, or few milliseconds at worst."""


async def aside(work: Callable[[bytes], bytes], data: bytes) -> bytes:
    """Return what is made of the data; in a thread, where it is large."""
    if len(data) <= INLINE_BYTES:
        return work(data)
    return await asyncio.to_thread(work, data)
