"""Server-sent events: the page, and then what changes of it.

Messages: `page` begins it all anew, `change` has parts (`{"set": {KEY: PART}, "gone": [KEY]}`) and is small, `whole`
ends what belongs together and carries the id by which a reader that comes back is told only what it missed. Comments
are heartbeats. Nothing waits here for a reader who is slow: it is told later of what is then, and one who takes nothing
for too long is let go.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from cotenant_dashboard.view.parts import Change

LOG = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 15.0
SLOW_SECONDS: Final = 20.0
RETRY_MILLISECONDS: Final = 1000
MESSAGE_CHARACTERS: Final = 16 * 1024
"""About so much is read at once, so that no page is held up by its news."""
_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
HEARTBEAT: Final = ": still here\n\n"


class Source(Protocol):
    """The page; see `watching.live.Live`."""

    epoch: str

    def since(self, revision: int | None, /) -> Change:
        """Return what changed since a revision."""
        ...

    async def newer(self, revision: int, /) -> None:
        """Wait for a newer one."""
        ...

    async def closed(self) -> None:
        """Wait until there will be no more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long what may take.

    Attributes:
        ends_after_seconds: a reader has to come back then, and show who it is; None: never.
        heartbeat_seconds: without news.
        slow_seconds: a reader who takes nothing for so long is let go.
    """

    ends_after_seconds: float | None = None
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    slow_seconds: float = SLOW_SECONDS


class Stream:
    """Streams of readers, as an ASGI application."""

    def __init__(self, source: Source, *, limits: Limits) -> None:
        self._source, self._limits = source, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Until the reader goes, or is too slow, or has to come back."""
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        leaving = asyncio.ensure_future(_left(receive))
        telling = asyncio.ensure_future(self._tell(Headers(scope=scope).get("last-event-id"), send))
        closing = asyncio.ensure_future(self._source.closed())
        tasks = (leaving, telling, closing)
        try:
            await asyncio.wait(tasks, timeout=self._limits.ends_after_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(ends[1], TimeoutError):
            LOG.info("a reader took nothing for %.0f s and was let go", self._limits.slow_seconds)
            return
        if isinstance(ends[1], Exception):
            raise ends[1]
        if isinstance(ends[0], asyncio.CancelledError):
            await send({"type": "http.response.body", "body": b""})

    async def _tell(self, last: str | None, send: Send) -> None:
        revision = revision_of(last, self._source.epoch)
        await self._sent(send, f"retry: {RETRY_MILLISECONDS}\n\n")
        while True:
            change = self._source.since(revision)
            for text in messages(change, epoch=self._source.epoch):
                await self._sent(send, text)
            revision = change.revision
            while not await self._newer(revision):
                await self._sent(send, HEARTBEAT)

    async def _newer(self, revision: int) -> bool:
        """Return whether there is news; false: it is time to show that the line stands."""
        try:
            await asyncio.wait_for(self._source.newer(revision), self._limits.heartbeat_seconds)
        except TimeoutError:
            return False
        return True

    async def _sent(self, send: Send, text: str) -> None:
        """Send it; the server waits while its buffer for this reader is full, and that is not for ever."""
        async with asyncio.timeout(self._limits.slow_seconds):
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def messages(change: Change, *, epoch: str) -> Iterator[str]:
    """Yield a change as messages, each small."""
    if change.whole:
        yield "event: page\ndata: {}\n\n"
    held: list[str] = []
    size = 0
    for key, text in change.parts.items():
        if held and size + len(text) > MESSAGE_CHARACTERS:
            yield _parts(held, ())
            held, size = [], 0
        held.append(f"{json.dumps(key)}:{text}")
        size += len(text)
    if held or change.gone:
        yield _parts(held, change.gone)
    yield f'event: whole\nid: {epoch}-{change.revision}\ndata: {{"revision":{change.revision}}}\n\n'


def _parts(held: list[str], gone: tuple[str, ...]) -> str:
    # JSON escapes what ends a line; no part has a line end of its own.
    return f'event: change\ndata: {{"set":{{{",".join(held)}}},"gone":{json.dumps(gone)}}}\n\n'


def revision_of(last: str | None, epoch: str) -> int | None:
    """Return what a reader has seen; None: nothing of this page."""
    named, _, number = (last or "").rpartition("-")
    return int(number) if named == epoch and number.isascii() and number.isdigit() and len(number) < 16 else None


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
