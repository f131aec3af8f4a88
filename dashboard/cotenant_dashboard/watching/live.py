"""The page as it is now: made again when the cluster changes, at most so many times a second, and told to who waits."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cotenant_cli.views import explanation
from cotenant_dashboard.view.page import Page
from cotenant_dashboard.view.parts import Change, Parts
from cotenant_dashboard.watching.store import Store

LOG = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 0.1
"""From one update of the page to the next, at least."""
SUMMARY_SECONDS: Final = 0.5
"""Between two sums over the cluster."""
IDLE_SECONDS: Final = 5.0
"""When nothing changes, what was allotted and used grows all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time of day, and one that never goes back, in seconds."""

    now: Callable[[], datetime]
    seconds: Callable[[], float]


class Live:
    """The page, live.

    Attributes:
        page: that is made.
        epoch: of this process: revisions of another are not of this page.
    """

    def __init__(self, *, release: str, epoch: str, clock: Clock) -> None:
        self.epoch, self._clock = epoch, clock
        self.store = Store(self._told)
        self._parts = Parts()
        self.page = Page(self._parts, release=release, started=clock.now(), failed=_failed)
        self._counted = clock.seconds()
        self._summed: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._turn, self._closed = asyncio.Event(), asyncio.Event()

    @property
    def revision(self) -> int:
        """Of the newest change."""
        return self._parts.revision

    def since(self, revision: int | None) -> Change:
        """Return what changed since a revision of this page."""
        return self._parts.since(revision)

    async def newer(self, revision: int) -> None:
        """Wait until there is a newer revision."""
        while self._parts.revision <= revision:
            await self._turn.wait()

    def close(self) -> None:
        """Let readers go."""
        self._closed.set()

    async def closed(self) -> None:
        """Wait until readers are let go."""
        await self._closed.wait()

    def explained(self, namespace: str, name: str) -> explanation.Explanation:
        """Return what `cotenant why NAMESPACE/NAME` says.

        Raises:
            NotFoundError: there is no such job.
        """
        seen = self.store.seen(namespace, name)
        return explanation.explained(seen, namespace=namespace, name=name, now=self._clock.now())

    async def run(self) -> None:
        """Until cancelled."""
        self._loop = asyncio.get_running_loop()
        self._news.set()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._patience())
            self._news.clear()
            begun = self._clock.seconds()
            self.step()
            # A page that takes long to make leaves time for those who are told of it.
            await asyncio.sleep(max(PAUSE_SECONDS - (self._clock.seconds() - begun), PAUSE_SECONDS / 2))

    def step(self) -> None:
        """Make again what changed, and tell of it."""
        before = self._parts.revision
        moment = self._clock.seconds()
        self.page.elapsed(moment - self._counted)
        self._counted = moment
        changed = self.store.news()
        self.page.update(changed, now=self._clock.now())
        if self._summed is None or moment - self._summed >= SUMMARY_SECONDS:
            self._summed = moment
            self.page.sum_up(changed)
        if self._parts.revision != before:
            turn, self._turn = self._turn, asyncio.Event()
            turn.set()

    def _patience(self) -> float:
        """Return how long to wait; a sum that was left out is made soon."""
        return IDLE_SECONDS if self._summed == self._counted else SUMMARY_SECONDS

    def _told(self) -> None:
        """By the thread of a watch; before it runs there is nobody to tell."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._news.set)


def _failed(part: str, error: Exception) -> None:
    LOG.error("the part %s of the page cannot be made", part, exc_info=error)
