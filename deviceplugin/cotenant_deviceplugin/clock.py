"""The time, as a parameter: an agent never reads a clock of its own."""

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> datetime:
        """Return the time, with its zone."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait; other agents of the process go on."""
        await asyncio.sleep(seconds)
