"""What every request passes, by its host and method, and what every answer carries. ASGI, so that streams stay streams.

The host is checked against DNS rebinding: a page of somebody else's, whose name was made to point at this address, is
sent with that name. An address in digits cannot be made to point elsewhere.
"""

import ipaddress
from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS: Final = ("GET", "HEAD")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """Before an application.

    Args:
        hosts: names by which it may be asked, beside addresses in digits and localhost.
    """

    def __init__(self, application: ASGIApp, *, hosts: Collection[str]) -> None:
        self._application = application
        self._hosts = frozenset(host.lower() for host in hosts) | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let it be answered."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        asked = Headers(scope=scope).get("host", "")
        if not self._is_ours(asked):
            remedy = "ask by address or localhost, or start it with --allow-host and this name"
            refusal = PlainTextResponse(f"Host: {asked[:80]!r}: {remedy}\n", status_code=421)
            await refusal(scope, receive, guarded)
        elif scope["method"] not in METHODS:
            allowed = {"allow": ", ".join(METHODS)}
            await PlainTextResponse("GET and HEAD alone\n", status_code=405, headers=allowed)(scope, receive, guarded)
        else:
            await self._application(scope, receive, guarded)

    def _is_ours(self, asked: str) -> bool:
        name = host_of(asked)
        return name in self._hosts or _in_digits(name)


def host_of(asked: str) -> str:
    """Of a Host header, without its port: `[::1]:80` is `::1`."""
    if asked.startswith("["):
        return asked[1:].partition("]")[0].lower()
    return asked.partition(":")[0].lower()


def _in_digits(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
