"""One request to an ASGI application, without a server, for tests."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


async def call(
    application: Application,
    method: str,
    path: str,
    *parts: bytes,
    length: str | None = None,
    authorization: str | None = None,
) -> tuple[int, bytes]:
    """Status and body of the answer. `parts`: the request's body; `length`: what Content-Length says of it."""
    named = {b"content-length": length, b"authorization": authorization}
    incoming: list[Message] = [
        {"type": "http.request", "body": part, "more_body": place < len(parts) - 1} for place, part in enumerate(parts)
    ] or [{"type": "http.request", "body": b"", "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name, value.encode()) for name, value in named.items() if value is not None],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    await application(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])
