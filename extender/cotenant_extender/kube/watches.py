"""List and watch one kind of object, for ever.

A list is followed by a watch from its resource version. A watch that ends is continued from the last object that it
brought; one that brought none, that is too old (410), or that fails to be read, is followed by a new list, whose
difference shows what was missed, deletions too. What is delivered, is delivered in order.

Versions do not tell whether etcd was restored from a snapshot meanwhile: they go back, and may have gone forth again,
beyond what was reached, when a watch is continued; the API server then says nothing of what was restored. So before a
watch is continued the API server is asked for its last object as of that object's version. If it has the same there,
nothing of what was delivered was taken back. Else all is listed again. Bookmarks, which name a version and nothing that
was written then, could not be confirmed so; none are asked for.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol
from urllib.parse import quote

import orjson

from cotenant_api import errors, paging
from cotenant_extender import steps
from cotenant_extender.kube import client, transport

LOG = logging.getLogger(__name__)

PAGE = 500
READ_PER_STEP = 25
"""Objects of a page that are read before others get their turn."""
WATCH_SECONDS = 300
SILENCE_SECONDS = WATCH_SECONDS + 30.0
"""Kinds that rest send nothing, not even bookmarks, until the API server ends the watch."""
FIRST_DELAY_SECONDS = 0.2
MAX_DELAY_SECONDS = 10.0
PAUSE_SECONDS = 0.05
"""Between two watches, so that a server that ends each at once is not flooded."""

Object = dict[str, Any]


class Sink(Protocol):
    """Where objects are delivered."""

    def take(self, items: list[Any], version: int, /) -> steps.Steps[None]:
        """Take in all objects there are, as of a resource version, in steps between which other work goes on."""

    def changed(self, item: Object, /) -> None:
        """Take in an object that was added or modified."""

    def gone(self, item: Object, /) -> None:
        """Take in that an object was deleted; this was its last state."""


def _nothing() -> None:
    """Nobody has to be told."""


class Watch:
    """Keeps a sink up to date with one collection.

    Args:
        read: makes of a listed object what is kept until the list is whole, and delivered; default: the object.
        begins: is told that a list is about to be asked for.

    Attributes:
        lists: how many lists have been delivered; 0: the sink knows nothing yet.
    """

    def __init__(
        self,
        api: client.Client,
        path: str,
        sink: Sink,
        *,
        read: Callable[[Object], Any] = lambda item: item,
        begins: Callable[[], None] = _nothing,
    ) -> None:
        self.path, self.lists = path, 0
        self._api, self._sink, self._read, self._begins = api, sink, read, begins
        self._version = ""
        self._last: Object | None = None
        self._asked = self._answered = 0
        self._again = asyncio.Event()
        self._progress = asyncio.Event()

    async def relist(self) -> None:
        """List again, and wait until that list was delivered: one under way may have been read before."""
        self._asked += 1
        wanted = self._asked
        self._again.set()
        while self._answered < wanted:
            await self._delivered()

    async def listed(self, count: int = 1) -> None:
        """Wait until so many lists have been delivered."""
        while self.lists < count:
            await self._delivered()

    async def run(self) -> None:
        """Until cancelled."""
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                if not await self._confirmed():
                    await self._list()
                await self._watch_unless_asked_again()
                delay = FIRST_DELAY_SECONDS
                await self._api.sleep(PAUSE_SECONDS)
            except client.GoneError as error:
                LOG.info("%s: listing again: %s", self.path, error)
                self._forget()
                await self._api.sleep(PAUSE_SECONDS)
            except errors.CotenantError as error:
                LOG.warning("%s: trying again in %.1f s: %s", self.path, delay, error)
                if not isinstance(error, transport.UnansweredError):
                    self._forget()
                await self._api.sleep(delay)
                delay = min(2 * delay, MAX_DELAY_SECONDS)

    async def _delivered(self) -> None:
        """Wait for the next list."""
        self._progress.clear()
        await self._progress.wait()

    async def _list(self) -> None:
        items: list[Any] = []
        token, limit = "", PAGE
        asked = self._asked
        self._again.clear()
        self._begins()
        while True:
            page = await self._page(token, limit)
            if page is None:
                limit = paging.smaller(limit)
                continue
            limit = paging.larger(limit, PAGE)
            for count, item in enumerate(page.pop("items", None) or (), start=1):
                items.append(self._read(item))
                if count % READ_PER_STEP == 0:
                    await asyncio.sleep(0)
            metadata = page.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                break
        self._version, self._last = metadata.get("resourceVersion") or "", None
        for _ in self._sink.take(items, _number(self._version)):
            await asyncio.sleep(0)
        self.lists += 1
        self._answered = asked
        self._progress.set()

    async def _page(self, token: str, limit: int) -> Object | None:
        """Return a page of a list; None: so many objects are too large together.

        An object that is too large alone is left out. None is that etcd takes, unless it takes more than by default.
        """
        path = f"{self.path}?limit={limit}" + (f"&continue={token}" if token else "")
        try:
            return await self._api.get(path)
        except transport.TooLargeError:
            if limit > 1:
                return None
        page = await self._api.get(path, accept=transport.METADATA_ONLY_LIST)
        for item in page.pop("items", None) or ():
            metadata = item["metadata"]
            LOG.error("%s: %s/%s is too large and left out", self.path, metadata.get("namespace", ""), metadata["name"])
        return page

    def _forget(self) -> None:
        """Go on with a list."""
        self._version, self._last = "", None

    async def _confirmed(self) -> bool:
        """Return whether the history still has what was delivered last, so that a watch can continue from there."""
        last = self._last
        if last is None:
            return False
        page = await self._api.get(_as_of(self.path, last["metadata"]))
        if [_content(item) for item in page.get("items") or ()] == [_content(last)]:
            return True
        LOG.warning("%s: what was written at version %s is not there: listing again", self.path, self._version)
        return False

    async def _watch_unless_asked_again(self) -> None:
        """Watch; when a new list is wanted, stop and forget the version."""
        watching = asyncio.ensure_future(self._watch())
        asking = asyncio.ensure_future(self._again.wait())
        try:
            await asyncio.wait({watching, asking}, return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                self._forget()
                return
        finally:
            for task in (watching, asking):
                task.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await asyncio.wait({watching})
        await watching

    async def _watch(self) -> None:
        query = f"?watch=1&timeoutSeconds={WATCH_SECONDS}&resourceVersion={self._version}"
        request = transport.Request("GET", self.path + query, timeout_seconds=SILENCE_SECONDS)
        async with self._api.carrier.stream(request) as stream:
            if stream.status != 200:
                body = b"".join([line async for line in stream.lines()])
                client.result(transport.Answer(stream.status, {}, body))
            async for event in _events(stream):
                self._deliver(event)

    def _deliver(self, event: object) -> None:
        item = event.get("object") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(item, dict):
            raise errors.TemporaryError("a watch sent what is no event", delay_seconds=0)
        match event.get("type"):
            case "ADDED" | "MODIFIED":
                self._sink.changed(item)
                self._reached(item)
            case "DELETED":
                self._sink.gone(item)
            case "ERROR":
                code = item.get("code")
                failure = client.GoneError if code in (410, 504) else client.APIError
                raise failure(code if isinstance(code, int) else 500, str(item.get("message")))
            case _:
                pass

    def _reached(self, item: Object) -> None:
        """Note an object that was delivered. What is deleted after it is told once more if the watch is continued."""
        metadata = item.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(version, str) and version:
            self._version, self._last = version, item


def _number(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() else 0


def _as_of(path: str, metadata: Object) -> str:
    """Return the list of one object alone, as of its version."""
    namespace, name = metadata.get("namespace") or "", str(metadata.get("name"))
    if namespace and "/namespaces/" not in path:
        group, _, plural = path.rpartition("/")
        path = f"{group}/namespaces/{quote(namespace, safe='')}/{plural}"
    selector = quote(f"metadata.name={name}", safe="")
    version = quote(metadata["resourceVersion"], safe="")
    return f"{path}?fieldSelector={selector}&resourceVersion={version}&resourceVersionMatch=Exact"


def _content(item: Object) -> Object:
    """Return an object without what a list says once for all."""
    return {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}


async def _events(stream: transport.Stream) -> AsyncIterator[object]:
    async for line in stream.lines():
        if line.strip():
            yield await _decoded(line)


async def _decoded(line: bytes) -> object:
    """Return the event of a line; what is nested too deep is left out of it."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if not line.endswith(b"\n"):
            raise transport.UnansweredError(f"a watch was cut: {error}") from error
    try:
        return orjson.loads(await client.shallow(line))
    except orjson.JSONDecodeError as error:
        # It is whole, and would be no other the next time.
        raise errors.TemporaryError(f"a watch sent what is no JSON: {error}", delay_seconds=0) from error
