"""A whole extender on an API server in memory, in a thread of its own, reached over ASGI from any thread, for tests."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeVar

from api_server.server import Server
from cotenant_extender import app
from extender import running

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
T = TypeVar("T")

SECONDS = 30


class _Loop(asyncio.SelectorEventLoop):
    """In real time, which begins at 0 as virtual time does."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        super().__init__()

    def time(self) -> float:
        """Seconds since its making."""
        return time.monotonic() - self._began


class Served:
    """The application of an extender that runs on `loop`; it may be called from another loop."""

    def __init__(self, rig: running.Rig, loop: asyncio.AbstractEventLoop) -> None:
        self.rig = rig
        self._loop = loop
        self._app = app.create(rig.extender, rig.extender.metrics)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request on the extender's own loop."""
        if scope["type"] != "http":
            raise RuntimeError(f"no {scope['type']} here")
        parts: list[Message] = []
        while not parts or parts[-1].get("more_body"):
            parts.append(await receive())
        answering = asyncio.run_coroutine_threadsafe(self._answer(scope, parts), self._loop)
        for message in await asyncio.wrap_future(answering):
            await send(message)

    async def _answer(self, scope: Message, parts: list[Message]) -> list[Message]:
        sent: list[Message] = []

        async def receive() -> Message:
            return parts.pop(0) if parts else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return sent


@contextmanager
def serving(to: Server) -> Iterator[Served]:
    """It runs for the block, in real time."""
    loop = _Loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def on_loop(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(SECONDS)

    context = running.extender(to, assume_leader=True)
    rig = on_loop(context.__aenter__())
    try:
        on_loop(rig.serving())
        yield Served(rig, loop)
    finally:
        on_loop(context.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()
