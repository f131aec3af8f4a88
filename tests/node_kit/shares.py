"""A plain `Shares` for tests of what stands between kubelet and it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from cotenant_deviceplugin.kubelet.plugin import CDIName, Token, Tokens


def tokens(count: int) -> dict[Token, bool]:
    """So many tokens, all healthy."""
    return {Token(f"t{number:04d}"): True for number in range(count)}


async def nothing(_tokens: Tokens) -> None:
    """Does nothing."""


class PlainShares:
    """Names every allocation after a number, and does at a start what the test says.

    Attributes:
        allocated: what was asked for.
        started: the tokens of the containers that started.
        before: what a call waits for, or raises.
    """

    def __init__(self, offers: Mapping[Token, bool]) -> None:
        self.allocated: list[Tokens] = []
        self.started: list[Tokens] = []
        self.before: Callable[[Tokens], Awaitable[None]] = nothing
        self.listeners = 0
        self._offers = dict(offers)
        self._changed = asyncio.Event()

    def offer(self, offers: Mapping[Token, bool]) -> None:
        """Change what is offered."""
        self._offers = dict(offers)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def offers(self) -> AsyncIterator[Mapping[Token, bool]]:
        """What stands, then each change."""
        self.listeners += 1
        try:
            while True:
                changed = self._changed
                yield dict(self._offers)
                await changed.wait()
        finally:
            self.listeners -= 1

    async def allocate(self, tokens: Tokens) -> CDIName:
        """A new name."""
        await self.before(tokens)
        self.allocated.append(tokens)
        return CDIName(f"cotenant.dev/share=n{len(self.allocated)}")

    async def pre_start(self, tokens: Tokens) -> None:
        """Nothing more."""
        await self.before(tokens)
        self.started.append(tokens)
