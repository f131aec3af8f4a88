"""A dashboard in a thread of this process, for a browser beside it; it can be killed and begun again at its port."""

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import cotenant_api
from cotenant_dashboard.watching import live
from cotenant_dashboard.web import app, serving

SECONDS = 10.0


class Dashboard:
    """One, that serves.

    Attributes:
        live: its page; `live.store` is to be filled.
        url: where it is.
    """

    def __init__(self, *, port: int = 0, settings: app.Settings | None = None) -> None:
        clock = live.Clock(now=lambda: datetime.now(UTC), seconds=time.monotonic)
        self.live = live.Live(release=cotenant_api.__version__, epoch=secrets.token_hex(8), clock=clock)
        self._settings = settings or app.Settings()
        self._door = serving.Door(address="127.0.0.1", port=port)
        self._listening = self._door.listening()
        self.port: int = self._listening.getsockname()[1]
        self.url = self._door.url(self._listening)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: serving.Server | None = None
        self._begun = threading.Event()

    def begin(self) -> None:
        """Serve."""
        self._thread.start()
        if not self._begun.wait(SECONDS):
            raise TimeoutError("the dashboard did not begin")

    def end(self) -> None:
        """Stop, and let everybody go."""
        if self._loop is not None and self._server is not None:
            self._loop.call_soon_threadsafe(self._server.end)
        self._thread.join(SECONDS)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        application = app.create(self.live, self._settings)
        self._server = SideServer(serving.configuration(application, self._door), self.live.close)
        making = asyncio.create_task(self.live.run())
        self._loop.call_soon(self._begun.set)
        with self._listening:
            await self._server.serve(sockets=[self._listening])
        making.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await making


class SideServer(serving.Server):
    """Beside something else: signals are of the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle none."""
        yield


@contextlib.contextmanager
def dashboard(*, port: int = 0, settings: app.Settings | None = None) -> Iterator[Dashboard]:
    """One, for the block."""
    made = Dashboard(port=port, settings=settings)
    made.begin()
    try:
        yield made
    finally:
        made.end()
