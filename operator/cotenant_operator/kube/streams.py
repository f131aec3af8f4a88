"""The session that kopf watches through: each event is made fit to be decoded before kopf decodes it.

kopf decodes an event as it comes and ends the operator where that fails.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import aiohttp
import kopf

from cotenant_operator.kube import aside

Clean = Callable[[bytes], bytes]
"""Takes the JSON of an event, and returns JSON of the same event, in one line; of a large one in another thread."""

_CHUNK_BYTES: Final = 256 * 1024


def session(info: kopf.ConnectionInfo, *, clean: Clean) -> kopf.AiohttpSession:
    """Return the same server and credentials with a session of ours.

    Args:
        info: server and credentials.
        clean: called with each event of each watch.
    """

    class Response(aiohttp.ClientResponse):
        """A response whose content, if it is a watch, comes event by event."""

        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            started = await super().start(connection)
            if self.status == 200 and self.url.query.get("watch") == "true":
                self.content = Events(self.content, clean)  # type: ignore[assignment]
            return started

    opened = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        response_class=Response,
    )
    return kopf.AiohttpSession(server=info.server, aiohttp_session=opened)


class Events:
    """The content of a watch: one event after the other, each in a line.

    Args:
        content: as it comes.
        clean: called with each event.
    """

    def __init__(self, content: aiohttp.StreamReader, clean: Clean) -> None:
        self._content, self._clean = content, clean

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield events, whatever size of chunks is asked for: as many at once as are decoded one by one."""
        parts: list[bytes] = []
        async for chunk in self._content.iter_chunked(_CHUNK_BYTES):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                yield await aside.aside(self._clean, b"".join((*parts, end))) + b"\n"
                parts = []
            parts.append(rest)
        if any(parts):
            yield await aside.aside(self._clean, b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)
