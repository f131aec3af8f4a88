"""The routes: the page, its events, one job's explanation, what Prometheus reads. GET and HEAD alone."""

import asyncio
import ipaddress
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from cotenant_api import errors
from cotenant_cli.views import explanation_lines
from cotenant_dashboard.view import words
from cotenant_dashboard.watching import rights
from cotenant_dashboard.watching.live import Live
from cotenant_dashboard.watching.reviews import Verdict
from cotenant_dashboard.web import assets, events, guards, metrics, sources

SHOWN_AGAIN_SECONDS: Final = 300.0
"""A stream of somebody who had to show a token ends then: a right that was taken away ends with it."""
_FRESH: Final = {"cache-control": "no-store"}
_FORBIDDEN: Final = (
    f"this account needs the rights to {rights.WORDS}: ask an admin to bind the ClusterRole cotenant-viewer to it"
)
_PROBLEMS: Final = {
    Verdict.UNKNOWN: (401, "no valid token: `kubectl create token ACCOUNT` makes one"),
    Verdict.FORBIDDEN: (403, _FORBIDDEN),
    Verdict.LIMITED: (429, "too many tokens that are none: try again in a minute"),
}
_PLAIN: Final = (
    "tokens are taken over HTTPS, or through kubectl port-forward: give it a certificate, or start it with --insecure "
    "behind a proxy that ends TLS"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Who may ask.

    Attributes:
        hosts: names by which it may be asked.
        verdict: whether the bearer of a token, from an address, may look; None: whoever can reach it.
        insecure: whether tokens are taken over plain HTTP from other machines.
        proxies: who may say where a request came from; tokens are counted for that.
    """

    hosts: Collection[str] = ()
    verdict: Callable[[str, str], Verdict] | None = None
    insecure: bool = False
    proxies: Sequence[sources.Network] = ()


def create(live: Live, settings: Settings) -> ASGIApp:
    """Return the application."""
    limits = events.Limits(ends_after_seconds=None if settings.verdict is None else SHOWN_AGAIN_SECONDS)
    own = [
        _route("/api/events", events.Stream(live, limits=limits), settings),
        _route("/api/page", _page(live), settings),
        _route("/api/jobs/{namespace}/{name}", _job(live), settings),
        _route("/metrics", _metrics(live), settings),
        Route("/healthz", _healthy(live), methods=["GET"]),
        Route("/readyz", _ready(live), methods=["GET"]),
    ]
    guard = Middleware(guards.Guard, hosts=settings.hosts)
    return Starlette(routes=[*own, *assets.routes(assets.read())], middleware=[guard])


class _Shown:
    """Before what not everybody may see."""

    def __init__(self, application: ASGIApp, settings: Settings) -> None:
        self._application, self._settings = application, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it, or say what is missing."""
        verdict = self._settings.verdict
        refusal = None if verdict is None else await self._refusal(Request(scope), verdict)
        await (refusal or self._application)(scope, receive, send)

    async def _refusal(self, request: Request, verdict: Callable[[str, str], Verdict]) -> Response | None:
        peer = "" if request.client is None else request.client.host
        if not (self._settings.insecure or request.url.scheme == "https" or _on_this_machine(peer)):
            return JSONResponse({"problem": _PLAIN}, status_code=403, headers=_FRESH)
        source = sources.source_of(peer, request.headers.getlist(sources.HEADER), self._settings.proxies)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            said = await asyncio.to_thread(verdict, token.strip() if scheme.lower() == "bearer" else "", source)
        except errors.TemporaryError as error:
            return JSONResponse({"problem": str(error)}, status_code=503, headers=_FRESH)
        if said is Verdict.ALLOWED:
            return None
        status, problem = _PROBLEMS[said]
        return JSONResponse({"problem": problem}, status_code=status, headers=_FRESH | {"www-authenticate": "Bearer"})


def _on_this_machine(source: str) -> bool:
    """Return whether an address is of loopback, as kubectl port-forward's is in a pod."""
    try:
        return ipaddress.ip_address(source).is_loopback
    except ValueError:
        return False


def _route(path: str, application: ASGIApp, settings: Settings) -> Route:
    return Route(path, _Shown(application, settings), methods=["GET"])


def _page(live: Live) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        change = live.since(None)
        parts = ",".join(f"{json.dumps(key)}:{text}" for key, text in sorted(change.parts.items()))
        body = f'{{"v":1,"revision":{change.revision},"parts":{{{parts}}}}}'
        await Response(body, media_type="application/json", headers=_FRESH)(scope, receive, send)

    return answer


def _job(live: Live) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        named = scope["path_params"]
        try:
            shown = live.explained(named["namespace"], named["name"])
        except errors.NotFoundError as error:
            missing = JSONResponse({"problem": words.plain(str(error))}, status_code=404, headers=_FRESH)
            await missing(scope, receive, send)
            return
        document: dict[str, Any] = words.plain(shown.to_object())
        facts = [
            {"title": title, "words": words.plain(said), "tone": None if tone is None else tone.name.lower()}
            for title, said, tone in explanation_lines.facts(shown)
        ]
        await JSONResponse(document | {"facts": facts}, headers=_FRESH)(scope, receive, send)

    return answer


def _metrics(live: Live) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        text = metrics.text(live.page.meter.seconds())
        await Response(text, media_type="text/plain; version=0.0.4", headers=_FRESH)(scope, receive, send)

    return answer


def _healthy(live: Live) -> Callable[[Request], Any]:
    async def answer(_: Request) -> Response:
        if live.store.broken:
            return PlainTextResponse("a watch has ended\n", status_code=503, headers=_FRESH)
        return PlainTextResponse("ok\n", headers=_FRESH)

    return answer


def _ready(live: Live) -> Callable[[Request], Any]:
    async def answer(_: Request) -> Response:
        if live.store.whole:
            return PlainTextResponse("ok\n", headers=_FRESH)
        return PlainTextResponse("the cluster has not been read yet\n", status_code=503, headers=_FRESH)

    return answer
