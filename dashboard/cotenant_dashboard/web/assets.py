"""The files of the page: read once, served as they are. Nothing else of the disk is ever served."""

import hashlib
import importlib.resources
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

INDEX: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file."""

    content: bytes
    media_type: str
    tag: str


def read() -> Mapping[str, Asset]:
    """All of them, by name."""
    folder = importlib.resources.files("cotenant_dashboard.web") / "static"
    return {
        file.name: _asset(file.name, file.read_bytes())
        for file in folder.iterdir()
        if PurePosixPath(file.name).suffix in _TYPES
    }


def routes(assets: Mapping[str, Asset]) -> list[Route]:
    """Return a route for each; the index is the root's."""
    return [
        Route("/" if name == INDEX else f"/static/{name}", _answer(asset), methods=["GET"])
        for name, asset in sorted(assets.items())
    ]


def _asset(name: str, content: bytes) -> Asset:
    digest = hashlib.sha256(content).hexdigest()[:32]
    return Asset(content=content, media_type=_TYPES[PurePosixPath(name).suffix], tag=f'"{digest}"')


def _answer(asset: Asset) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        # Kept by the browser, and asked for each time: a new release shows at once.
        headers = {"etag": asset.tag, "cache-control": "no-cache"}
        if asset.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(asset.content, media_type=asset.media_type, headers=headers)

    return answer
