"""Short waits and short paths, for tests over real sockets."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

PATIENCE_SECONDS = 180.0
"""Only what will never come takes so long, also on a machine that others keep busy."""


class QuickClock:
    """Real time, but every wait is a fiftieth as long."""

    def now(self) -> datetime:
        """The machine's."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait a little."""
        await asyncio.sleep(seconds / 50)


async def until(condition: Callable[[], object]) -> None:
    """Wait for what other tasks, or the system, bring about.

    What a condition looks up may not be there yet: a LookupError is "no".
    Raises TimeoutError after `PATIENCE_SECONDS`.
    """
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not _holds(condition):  # noqa: ASYNC110 -- nothing tells of every condition
            await asyncio.sleep(0.002)


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except LookupError:
        return False


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for sockets: their paths have at most 107 characters, and pytest's own are long."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="k") as name:
        yield Path(name)
