"""The way between one client and the API server: delays, losses, duplicates, partitions, outages.

What was sent reaches the API server independently of whether its sender still lives or waits: a kernel goes on
retransmitting what a closed socket had sent. So a request may take effect minutes after its sender gave up, after a
partition has healed, after its sender or the API server was started again, and in any order.
"""

import asyncio
import collections
import contextvars
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from api_server import answers, handlers, server, store
from cotenant_extender.kube import transport

Object = dict[str, Any]
Judge = Callable[[transport.Answer], None]

LATENCY_SECONDS = 0.004
LATE_SECONDS = 20.0
VERY_LATE_SECONDS = (4.0, 20.0, 150.0)
"""How late a request of an extender may arrive, at most; one of these is drawn for each."""
PATH_OF_POD = 6
"""Slashes in the path of a pod, without a subresource."""
AFTER_HEAL_SECONDS = 8.0
"""Retransmissions back off: what was sent during a partition arrives so long after its end, at most."""


@dataclass
class Weather:
    """How bad things are.

    Attributes:
        trouble: chance that something befalls a request.
        late: chance that a Binding, or a lift, is withheld until it does the most harm (see `latecomers`).
        down: whether the API server answers nobody.
    """

    trouble: float = 0.0
    late: float = 0.0
    down: bool = False


class Withheld(NamedTuple):
    """A request that is under way until somebody delivers it."""

    link: "Link"
    request: transport.Request


class Network:
    """Links to one API server. What happens in it happens in no process.

    Attributes:
        withheld: Bindings and lifts that arrive when `latecomers` says so.
        lifts: by which it is drawn whether a lift is withheld.
        failing: paths of pods whose changes are all answered 500: a webhook of their namespace is down.
        on_binding: is told whose Binding took effect, and the Binding.
        on_slow: is told whose Binding will take effect late, or without a reply, and the Binding.
        on_arrival: is told whose request is about to take effect, and says who is to be told of the answer.
    """

    def __init__(self, handling: handlers.Handlers, objects: store.Store) -> None:
        self.handling, self.objects = handling, objects
        self.weather = Weather()
        self.links: list[Link] = []
        self.withheld: list[Withheld] = []
        self.failing: set[str] = set()
        self.on_binding: Callable[[Link, Object], None] = lambda *_: None
        self.on_slow: Callable[[Link, transport.Request], None] = lambda *_: None
        self.on_arrival: Callable[[Link, transport.Request], Judge | None] = lambda *_: None
        self.outside = contextvars.Context()
        self.lifts = random.Random()  # noqa: S311

    def link(self, name: str, rng: random.Random) -> "Link":
        """A way for another client."""
        self.links = [link for link in self.links if not link.cut]
        self.links.append(Link(self, name, rng))
        return self.links[-1]

    def cut_watches(self) -> None:
        """All watches break."""
        for link in self.links:
            link.break_streams()

    def bookmark(self) -> None:
        """Every watch is told how far the history has come."""
        value = {"metadata": {"resourceVersion": str(self.objects.version)}}
        line = orjson.dumps({"type": "BOOKMARK", "object": value}) + b"\n"
        for link in self.links:
            for stream in link.streams:
                stream.push(line)


class Link:
    """One client's way: a `transport.Transport`.

    Attributes:
        cut: its process is dead: nothing goes out any more.
        partitioned: nothing gets through at present.
        streams: its watches.
    """

    def __init__(self, network: Network, name: str, rng: random.Random) -> None:
        self.network, self.name, self.rng = network, name, rng
        self.cut = self.partitioned = False
        self.streams: list[_Stream] = []
        self._unsent: list[tuple[transport.Request, asyncio.Future[transport.Answer]]] = []

    @property
    def open(self) -> bool:
        """Whether anything gets through."""
        return not (self.cut or self.partitioned or self.network.weather.down)

    def partition(self) -> None:
        """Nothing gets through from now on."""
        self.partitioned = True

    def heal(self) -> None:
        """It gets through again; requests arrive, watches bring what they held back, or break."""
        self.partitioned = False
        unsent, self._unsent = self._unsent, []
        for request, reply in unsent:
            if self.rng.random() < 0.8:
                self._later(self.rng.uniform(0.0, AFTER_HEAL_SECONDS), self._arrive, request, reply, "")
        for stream in list(self.streams):
            if self.rng.random() < 0.5:
                stream.fail()
            else:
                stream.release()

    def disconnect(self) -> None:
        """Its process is dead."""
        self.cut = True
        self.streams.clear()

    def break_streams(self) -> None:
        """Its watches break."""
        for stream in list(self.streams):
            stream.fail()

    async def request(self, request: transport.Request) -> transport.Answer:
        """Send one."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[transport.Answer] = loop.create_future()
        self._send(request, reply)
        try:
            async with asyncio.timeout(request.timeout_seconds):
                return await reply
        except TimeoutError:
            raise transport.UnansweredError("timed out") from None

    @asynccontextmanager
    async def stream(self, request: transport.Request) -> AsyncIterator[transport.Stream]:
        """A watch."""
        await asyncio.sleep(self.latency())
        if not self.open or self.rng.random() < self.network.weather.trouble / 4:
            raise transport.UnansweredError("connection refused")
        target = handlers.named(request.path)
        found = _Stream(self, target, until=float(target.query.get("timeoutSeconds", 300)))
        self.streams.append(found)
        found.begin(int(target.query["resourceVersion"]))
        try:
            yield found
        finally:
            found.close()

    def latency(self) -> float:
        """Of one way."""
        rng = self.rng
        if rng.random() < self.network.weather.trouble / 4:
            return rng.uniform(0.0, 2.0)
        return rng.uniform(0.2, 1.0) * LATENCY_SECONDS

    def _send(self, request: transport.Request, reply: asyncio.Future[transport.Answer]) -> None:
        """What becomes of a request is drawn when it is sent."""
        if self.cut or self.network.weather.down:
            self._later(self.latency(), _fail, reply, "connection refused")
        elif self.partitioned:
            self._unsent.append((request, reply))
            self._slow(request)
        elif "/binding" in request.path and self.rng.random() < self.network.weather.late:
            self.network.withheld.append(Withheld(self, request))
            self._slow(request)
        elif self._lifts(request) and self.network.lifts.random() < self.network.weather.late:
            self.network.withheld.append(Withheld(self, request))
        else:
            self._befalls(request, reply)

    def _lifts(self, request: transport.Request) -> bool:
        """Return whether a request of an extender lifts a gate, or writes an earmark."""
        return request.method == "PATCH" and self.name.endswith("/extender") and request.path.count("/") == PATH_OF_POD

    def _befalls(self, request: transport.Request, reply: asyncio.Future[transport.Answer]) -> None:
        rng, trouble = self.rng, self.network.weather.trouble
        there, fate = self.latency(), rng.random()
        if fate < 0.10 * trouble:
            return
        if fate < 0.15 * trouble:
            self._later(there, _fail, reply, "connection reset")
        elif fate < 0.20 * trouble:
            self._later(there, _settle, reply, answers.RefusedError(429, "too many requests", retry_after=1).answer)
        elif fate < 0.25 * trouble:
            self._later(there, _settle, reply, answers.RefusedError(500, "etcdserver: leader changed").answer)
        elif fate < 0.50 * trouble:
            self._later(there, self._arrive, request, reply, "500" if rng.random() < 0.3 else "lost")
            self._slow(request)
        elif fate < (0.95 if "/binding" in request.path else 0.70) * trouble:
            self._later(rng.uniform(0.0, self._latest()), self._arrive, request, reply, "")
            self._slow(request)
            if rng.random() < 0.4:
                # Its sender hears of a failure first, and it takes effect after that.
                self._later(there, _fail, reply, "connection reset")
        else:
            self._later(there, self._arrive, request, reply, "")

    def _latest(self) -> float:
        """How late a request may arrive. What is late of the models of other programs would test the models."""
        return self.rng.choice(VERY_LATE_SECONDS) if self.name.endswith("/extender") else LATE_SECONDS

    def deliver(self, request: transport.Request) -> None:
        """Let a request take effect of which its sender hears no more."""
        nobody: asyncio.Future[transport.Answer] = asyncio.get_running_loop().create_future()
        nobody.cancel()
        self._later(0.0, self._arrive, request, nobody, "lost")

    def _slow(self, request: transport.Request) -> None:
        if "/binding" in request.path:
            self._later(0.0, self.network.on_slow, self, request)

    def _arrive(self, request: transport.Request, reply: asyncio.Future[transport.Answer], fate: str) -> None:
        """It takes effect."""
        if self.network.weather.down:
            if self.rng.random() < 0.5:
                _fail(reply, "connection reset")
            else:
                # Whatever stands before the API server keeps it, and tries again.
                self._later(self.rng.uniform(0.2, LATE_SECONDS), self._arrive, request, reply, fate)
            return
        judge = self.network.on_arrival(self, request)
        if request.method == "PATCH" and request.path in self.network.failing:
            answer = answers.RefusedError(500, "failed calling webhook: connection refused").answer
        else:
            answer = self.network.handling.answer(request)
        if judge is not None:
            judge(answer)
        if answer.status == 201 and "/binding" in request.path:
            self.network.on_binding(self, orjson.loads(request.body or b"{}"))
        if fate == "500":
            answer = answers.RefusedError(500, "etcdserver: request timed out").answer
        if fate != "lost":
            self._later(self.latency(), self._reply, reply, answer)

    def _reply(self, reply: asyncio.Future[transport.Answer], answer: transport.Answer) -> None:
        if self.open:
            _settle(reply, answer)

    def _later(self, seconds: float, callback: Any, *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(seconds, callback, *arguments, context=self.network.outside)


class _Stream:
    """A watch: lines in order, each some time after what it tells of."""

    def __init__(self, link: Link, target: handlers.Target, *, until: float) -> None:
        self.status = 200
        self._link, self._target = link, target
        self._objects = link.network.objects
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()
        self._end = self._due + until
        self._held: list[bytes] = []
        self._ready: collections.deque[bytes | None] = collections.deque()
        self._waiter: asyncio.Future[None] | None = None

    def begin(self, since: int) -> None:
        """What happened since a version, and then what happens."""
        try:
            for change in self._objects.since(self._target.collection, since):
                self._heard(change)
        except answers.RefusedError as refused:
            self.push(server.error_line(refused))
            return
        self._objects.listeners.append(self._heard)
        self._loop.call_at(self._end, self._arrived, b"", context=self._link.network.outside)

    def close(self) -> None:
        """Nobody reads it any more."""
        if self._heard in self._objects.listeners:
            self._objects.listeners.remove(self._heard)
        if self in self._link.streams:
            self._link.streams.remove(self)

    def push(self, line: bytes) -> None:
        """Send a line, after what was held back: a connection may lose its end, but never what is in the middle."""
        self._held.append(line)
        if self._link.open:
            self.release()

    def _send(self, line: bytes | None) -> None:
        # Timers of one time may come in any order; lines of a connection never do.
        self._due = max(self._due + 1e-6, self._loop.time() + self._link.latency())
        self._loop.call_at(self._due, self._arrived, line, context=self._link.network.outside)

    def fail(self) -> None:
        """The connection breaks."""
        self._held.clear()
        self.close()
        self._send(None)

    def release(self) -> None:
        """What was held back comes."""
        if self._link.open:
            held, self._held = self._held, []
            for line in held:
                self._send(line)

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines, as they come."""
        while True:
            while self._ready:
                line = self._ready.popleft()
                if line is None:
                    raise transport.UnansweredError("cut")
                yield line
            if self._loop.time() >= self._end:
                return
            self._waiter = self._loop.create_future()
            await self._waiter

    def _heard(self, change: store.Change) -> None:
        target = self._target
        if change.collection != target.collection:
            return
        if target.namespace and change.value["metadata"].get("namespace") != target.namespace:
            return
        self.push(change.line)
        if self._link.rng.random() < self._link.network.weather.trouble / 10:
            self.push(change.line)

    def _arrived(self, line: bytes | None) -> None:
        self._ready.append(line)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _settle(reply: asyncio.Future[transport.Answer], answer: transport.Answer) -> None:
    if not reply.done():
        reply.set_result(answer)


def _fail(reply: asyncio.Future[transport.Answer], message: str) -> None:
    if not reply.done():
        reply.set_exception(transport.UnansweredError(message))
