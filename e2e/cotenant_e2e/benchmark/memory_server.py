"""An API server for one extender, in its own process: lists from encoded pages, watches that are told what to send."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from cotenant_e2e.benchmark import world
from cotenant_extender.kube import transport


class Server:
    """Carries requests; every write is answered as done, with what it annotated."""

    def __init__(self, pages: Mapping[str, Sequence[bytes]]) -> None:
        self._pages = pages
        self._version = int(world.VERSION)
        self._lines: defaultdict[str, asyncio.Queue[bytes]] = defaultdict(asyncio.Queue)

    def send(self, path: str, event: Mapping[str, Any]) -> None:
        """Send an event to whoever watches."""
        self._lines[path].put_nowait(orjson.dumps(event))

    async def request(self, request: transport.Request) -> transport.Answer:
        """Answer one request in the next turn of the event loop."""
        await asyncio.sleep(0)
        if request.method != "GET":
            return self._written(orjson.loads(request.body or b"{}"))
        path, _, query = request.path.partition("?")
        _, _, start = query.partition("continue=")
        pages = self._pages.get(path, [b"{}"])
        return transport.Answer(200, {}, pages[int(start or "0") // world.PAGE])

    @asynccontextmanager
    async def stream(self, request: transport.Request) -> AsyncIterator["Lines"]:
        """Yield a watch."""
        yield Lines(self._lines[request.path.partition("?")[0]])

    def _written(self, body: Mapping[str, Any]) -> transport.Answer:
        self._version += 1
        annotations = (body.get("metadata") or {}).get("annotations") or {}
        metadata = {"resourceVersion": str(self._version), "annotations": annotations}
        return transport.Answer(200, {}, orjson.dumps({"metadata": metadata}))


class Lines:
    """The events of one watch."""

    status = 200

    def __init__(self, waiting: asyncio.Queue[bytes]) -> None:
        self._waiting = waiting

    async def lines(self) -> AsyncIterator[bytes]:
        """Each as it is sent."""
        while True:
            yield await self._waiting.get()
