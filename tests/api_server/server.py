"""An API server in memory, behind the extender's transport: answers at once, unless a fault says otherwise.

Faithful in what the extender relies on: one resource version for all kinds, lists in pages, watches from a version, 410
after a compaction, preconditions, merge and strategic patches, gates that can only go, a Binding that merges
annotations and sets the node in one step, evictions under budgets, graceful deletion.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import orjson

from api_server import answers, faults, handlers, pods, store
from cotenant_extender.kube import transport

Object = dict[str, Any]

START = 1_800_000_000.0


def _at_start() -> float:
    return START


class Server:
    """The API server.

    Args:
        clock: seconds since the epoch.

    Attributes:
        requests: every request, as method and path without query.
        fault: decides what happens to a request.
        late: requests whose senders gave up, and that have not arrived.
    """

    def __init__(self, clock: Callable[[], float] = _at_start) -> None:
        self.store = store.Store()
        self.handlers = handlers.Handlers(self.store, clock)
        self.requests: list[tuple[str, str]] = []
        self.fault: faults.Chooses = faults.nothing
        self.late: list[transport.Request] = []
        self._breaks = 0
        self._news = asyncio.Event()
        self.store.listeners.append(self._heard)

    # --- what tests do

    @property
    def events(self) -> list[Object]:
        """All Events."""
        return list(self.store.objects["/api/v1/events"].values())

    def put(self, path: str, value: Object) -> Object:
        """Create or replace an object, whatever the rules."""
        target = handlers.Target(path)
        value = copy.deepcopy(value)
        if target.namespace:
            value["metadata"].setdefault("namespace", target.namespace)
        return self.store.put(target.collection, value)

    def slip(self, path: str, value: Object) -> None:
        """Replace an object, and lose the event."""
        self.store.listeners.remove(self._heard)
        self.put(path, value)
        self.store.forget_last()
        self.store.listeners.append(self._heard)

    def remove(self, path: str, name: str, namespace: str = "") -> None:
        """Delete an object at once."""
        self.store.delete(handlers.Target(path).collection, (namespace, name))

    def lose(self, path: str, name: str, namespace: str = "") -> None:
        """Delete an object at once, and lose the event."""
        del self.store.objects[handlers.Target(path).collection][(namespace, name)]

    def all(self, path: str) -> list[Object]:
        """All objects of a kind, where the path names a namespace those in it."""
        target = handlers.named(path)
        found = self.store.objects[target.collection].items()
        return [value for (namespace, _), value in found if target.namespace in ("", namespace)]

    def pod(self, name: str, namespace: str = "team") -> Object:
        """A pod as it is."""
        return self.store.objects[pods.PODS][(namespace, name)]

    def has_pod(self, name: str, namespace: str = "team") -> bool:
        """Whether there is a pod of that name."""
        return (namespace, name) in self.store.objects[pods.PODS]

    async def changed(self) -> None:
        """Wait until an object is made, changed or deleted."""
        await self._news.wait()

    def arrive(self) -> list[transport.Answer]:
        """Carry out what was late, the latest first; what nobody hears."""
        late, self.late = self.late, []
        return [self.handlers.answer(request) for request in reversed(late)]

    def compact(self) -> None:
        """Forget history, and end all watches: whoever continues gets 410."""
        self.store.compact()
        self.break_watches()

    def restore(self, snapshot: store.Snapshot, *, bump: int = 0) -> None:
        """Restore etcd from a snapshot, and end all watches, as the API server is started again for that."""
        self.store.restore(snapshot, bump=bump)
        self.break_watches()

    def break_watches(self) -> None:
        """Cut every watch."""
        self._breaks += 1
        self._notify()

    def sent(self, method: str, part: str) -> int:
        """How many requests were made whose path contains this."""
        return sum(1 for verb, path in self.requests if verb == method and part in path)

    # --- Transport

    async def request(self, request: transport.Request) -> transport.Answer:
        """Carry out a request, or what its fault says."""
        await asyncio.sleep(0)
        self.requests.append((request.method, urlsplit(request.path).path))
        fault = self.fault(request)
        if fault is faults.Fault.NOT_SENT:
            raise transport.UnansweredError("cut")
        if fault is faults.Fault.LATE:
            self.late.append(request)
            raise transport.UnansweredError("timed out")
        if fault is faults.Fault.HANGS:
            await asyncio.sleep(request.timeout_seconds)
            raise transport.UnansweredError("timed out")
        if fault is faults.Fault.SLOW:
            await asyncio.sleep(0.9 * request.timeout_seconds)
        if fault is faults.Fault.ANSWERED:
            return answers.success()
        if fault is faults.Fault.BUSY:
            return answers.RefusedError(429, "too many requests", retry_after=1).answer
        if fault is faults.Fault.REFUSED:
            return answers.RefusedError(403, "denied by a policy").answer
        if fault is faults.Fault.FAILED:
            return answers.RefusedError(500, "failed calling webhook").answer
        answer = self.handlers.answer(request)
        if fault is faults.Fault.REPLY_LOST:
            raise transport.UnansweredError("timed out")
        return answers.RefusedError(500, "internal error").answer if fault is faults.Fault.BROKEN else answer

    @asynccontextmanager
    async def stream(self, request: transport.Request) -> AsyncIterator[transport.Stream]:
        """A watch."""
        await asyncio.sleep(0)
        self.requests.append(("WATCH", urlsplit(request.path).path))
        if self.fault(request) is not None:
            raise transport.UnansweredError("cut")
        target = handlers.Target(request.path)
        yield _Stream(self._lines(target.collection, int(target.query["resourceVersion"])))

    async def _lines(self, collection: str, since: int) -> AsyncIterator[bytes]:
        breaks = self._breaks
        while True:
            news = self._news
            try:
                changes = self.store.since(collection, since)
            except answers.RefusedError as refused:
                yield error_line(refused)
                return
            for change in changes:
                since = change.version
                yield change.line
            if breaks != self._breaks:
                raise transport.UnansweredError("cut")
            await news.wait()

    def _heard(self, _: store.Change) -> None:
        self._notify()

    def _notify(self) -> None:
        # Every stream waits on the event of its time: a new one for those that come later.
        news, self._news = self._news, asyncio.Event()
        news.set()


class _Stream:
    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self.status = 200
        self._lines = lines

    def lines(self) -> AsyncIterator[bytes]:
        return self._lines


def error_line(refused: answers.RefusedError) -> bytes:
    """A watch event that ends the watch."""
    return orjson.dumps({"type": "ERROR", "object": answers.status(refused.code, refused.message)}) + b"\n"
