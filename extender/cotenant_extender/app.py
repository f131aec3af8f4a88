"""The HTTP service for kube-scheduler: filter, prioritize, bind; and healthz, readyz, metrics. On loopback only.

The last three alone may be served on other addresses, too: nothing that they answer changes anything, and metrics name
tenants only to who shows the token.
"""

import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import orjson
from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from cotenant_api import errors, exposition
from cotenant_api.names import PodUID
from cotenant_extender import metrics, openapi, records, wire

PREFIX = "/scheduler"
JSON = "application/json"


class Service(Protocol):
    """What stands behind the verbs."""

    def missing(self) -> list[str]:
        """Return what the ledger still lacks; empty: it is whole."""

    def serving(self) -> bool:
        """Return whether this extender leads and may answer."""

    def standing(self) -> str:
        """Why it does not serve, for a person."""

    def known(self, uid: PodUID) -> records.Pod | None:
        """Return a pod as the ledger has it."""

    async def filter(self, args: wire.Args) -> bytes:
        """ExtenderFilterResult."""

    async def prioritize(self, args: wire.Args) -> bytes:
        """HostPriorityList."""

    async def bind(self, args: wire.BindingArgs) -> bytes:
        """ExtenderBindingResult."""

    async def explain(self, pod: str | None) -> bytes | None:
        """Why pods wait; None: there is no such pod."""


Refuse = Callable[[errors.InvalidInputError], Response]
Handler = Callable[[Request], Awaitable[Response]]


def create(service: Service, counts: metrics.Metrics) -> FastAPI:
    """Return the application."""
    routes = _Routes(service, counts)
    app = _Application(
        {f"{PREFIX}/filter": routes.filter, f"{PREFIX}/prioritize": routes.prioritize, f"{PREFIX}/bind": routes.bind}
    )
    add = functools.partial(app.add_api_route, response_class=Response)
    add(f"{PREFIX}/filter", routes.filter, methods=["POST"], summary="The node that takes a pod", **openapi.FILTER)
    add(
        f"{PREFIX}/prioritize",
        routes.prioritize,
        methods=["POST"],
        summary="Scores of nodes for a pod",
        **openapi.PRIORITIZE,
    )
    add(f"{PREFIX}/bind", routes.bind, methods=["POST"], summary="Commit a pod to GPUs of a node", **openapi.BIND)
    _add_questions(app, routes)
    add("/explain", routes.explain, methods=["GET"], summary="Why pods wait, and where one is", **openapi.EXPLAIN)
    return app


def create_for_monitoring(
    service: Service, counts: metrics.Metrics, readers: exposition.Readers = exposition.NOBODY
) -> FastAPI:
    """Return the application for whoever reaches the pod: kubelet's probes and Prometheus."""
    app = FastAPI(title="Cotenant scheduler extender: monitoring", docs_url=None, redoc_url=None, openapi_url=None)
    _add_questions(app, _Routes(service, counts, readers))
    return app


def _add_questions(app: FastAPI, routes: "_Routes") -> None:
    add = functools.partial(app.add_api_route, response_class=Response)
    add("/healthz", routes.healthz, methods=["GET"], summary="Whether the process answers", **openapi.PLAIN)
    add("/readyz", routes.readyz, methods=["GET"], summary="Whether the ledger is whole", **openapi.READYZ)
    add("/metrics", routes.metrics, methods=["GET"], summary="Metrics in Prometheus' text format", **openapi.PLAIN)


class _Application(FastAPI):
    """FastAPI, but for the verbs: what it does around a handler would be a good part of what these cost.

    Args:
        verbs: handlers of POST by path; they are routes as well, so that the schema tells of them.
    """

    def __init__(self, verbs: Mapping[str, Handler]) -> None:
        super().__init__(title="Cotenant scheduler extender", docs_url=None, redoc_url=None)
        self._verbs = verbs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        asked = scope["type"] == "http" and scope["method"] == "POST"
        handler = self._verbs.get(scope["path"]) if asked else None
        if handler is None:
            await super().__call__(scope, receive, send)
        else:
            response = await handler(Request(scope, receive))
            await response(scope, receive, send)


class _Routes:
    """The handlers: bytes in, bytes out, no model on the way.

    Args:
        readers: who may read metrics that name tenants; None: everybody, as on loopback.
    """

    def __init__(self, service: Service, counts: metrics.Metrics, readers: exposition.Readers | None = None) -> None:
        self._service, self._counts, self._readers = service, counts, readers

    async def filter(self, request: Request) -> Response:
        """ExtenderArgs to ExtenderFilterResult."""

        async def answer(body: bytes) -> bytes:
            return await self._service.filter(wire.decode_args(body, self._service.known))

        return await self._measured(request, "filter", answer, _in_filter_result)

    async def prioritize(self, request: Request) -> Response:
        """ExtenderArgs to HostPriorityList."""

        async def answer(body: bytes) -> bytes:
            return await self._service.prioritize(wire.decode_args(body, self._service.known))

        return await self._measured(request, "prioritize", answer, _in_status)

    async def bind(self, request: Request) -> Response:
        """ExtenderBindingArgs to ExtenderBindingResult."""

        async def answer(body: bytes) -> bytes:
            return await self._service.bind(wire.decode_binding(body))

        return await self._measured(request, "bind", answer, _in_binding_result)

    async def healthz(self) -> Response:
        """Alive."""
        return Response("ok", media_type="text/plain")

    async def readyz(self) -> Response:
        """Ready, or what is missing."""
        missing = self._service.missing()
        body = {"ready": not missing, "missing": missing, "serving": self._service.serving()}
        return Response(orjson.dumps(body), status_code=503 if missing else 200, media_type=JSON)

    async def explain(self, request: Request) -> Response:
        """Every waiting pod, or the one that is asked for."""
        if not self._service.serving():
            return _json(wire.error(self._service.standing()), status=503)
        pod = request.query_params.get("pod")
        found = await self._service.explain(pod)
        if found is None:
            return _json(wire.error(f"no pod {pod} waits for a GPU share or has one"), status=404)
        return _json(found)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics, as far as who asks may read them."""
        audience = exposition.Audience.HOLDER
        if self._readers is not None:
            shown = request.headers.get("authorization")
            audience = self._readers.audience(None if shown is None else shown.encode("latin-1"))
        if audience is exposition.Audience.REFUSED:
            return Response(exposition.REFUSAL, status_code=401, media_type="text/plain")
        return Response(self._counts.text(audience), media_type="text/plain; version=0.0.4")

    async def _measured(
        self, request: Request, verb: str, answer: Callable[[bytes], Awaitable[bytes]], refuse: Refuse
    ) -> Response:
        began = time.perf_counter()
        try:
            body = await _body(request)
            if self._service.serving():
                result, response = "ok", _json(await answer(body))
            else:
                result, response = "unavailable", _json(wire.error(self._service.standing()), status=503)
        except errors.InvalidInputError as error:
            result, response = "malformed", refuse(error)
        self._counts.verb_seconds.labels(verb).observe(time.perf_counter() - began)
        self._counts.requests.labels(verb, result).inc()
        return response


async def _body(request: Request) -> bytes:
    """Return the body, up to the limit.

    Raises:
        OversizedError: it is larger, by its Content-Length or as it came.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > wire.MAX_BODY_BYTES:
        raise wire.OversizedError
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > wire.MAX_BODY_BYTES:
            raise wire.OversizedError
        parts.append(part)
    return b"".join(parts)


def _json(body: bytes, *, status: int = 200) -> Response:
    return Response(body, status_code=status, media_type=JSON)


def _in_filter_result(error: errors.InvalidInputError) -> Response:
    return _json(wire.filter_error(str(error)))


def _in_binding_result(error: errors.InvalidInputError) -> Response:
    return _json(wire.binding_result(str(error)))


def _in_status(error: errors.InvalidInputError) -> Response:
    return _json(wire.error(str(error)), status=413 if isinstance(error, wire.OversizedError) else 400)
