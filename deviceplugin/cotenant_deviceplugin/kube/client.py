"""The API server over HTTP, with plain objects: a client library would take a third of the agent's memory.

Foreign errors are translated here and nowhere else. Nothing is tried again here.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from cotenant_api import errors, lines, nesting, paging
from cotenant_deviceplugin.kube import access, cluster, transport

LOG = logging.getLogger(__name__)

REQUEST_SECONDS = 10
WATCH_SECONDS = 240
"""How long the API server keeps a watch open."""
IDLE_SECONDS = 90
"""A watch that is silent for so long is opened anew: bookmarks come about once a minute."""
RETRY_SECONDS = 1.0
ANSWER_BYTES = lines.LONGEST
"""Of an answer that is read whole: one object has no more."""
PAGE_BYTES = 2 * 2**20
PAGE = 128
"""Objects of a list that are asked for at once, and their bytes: larger ones are asked for by fewer."""

_JSON = "application/json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_REFUSED = frozenset({400, 403, 405, 409, 415, 422})
_EVENT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", cluster.BOOKMARK})


class _Form(NamedTuple):
    """What is said, what is sent, and what is wanted of an answer."""

    content_type: str = _JSON
    accept: str = _JSON
    most_bytes: int = ANSWER_BYTES


_PLAIN = _Form()


class KubernetesCluster:
    """The API server that an access leads to.

    Args:
        source: reads the access; it is read again when the token is refused, so that renewing a kubeconfig is enough.
    """

    def __init__(self, source: access.Source) -> None:
        self._source = source
        self._reached: tuple[transport.Connections, access.Access] | None = None

    async def close(self) -> None:
        """End its connections."""
        self._forget()

    async def get(self, path: str) -> cluster.Object:
        """One object."""
        return await self._request("GET", path)

    async def create(self, path: str, manifest: cluster.Object) -> cluster.Object:
        """Create one."""
        return await self._request("POST", path, body=manifest)

    async def apply(self, path: str, manifest: cluster.Object) -> cluster.Object:
        """Server-side apply, forced."""
        url = f"{path}?{urlencode({'fieldManager': cluster.FIELD_MANAGER, 'force': 'true'})}"
        return await self._request("PATCH", url, body=manifest, content_type=_APPLY)

    async def patch(self, path: str, patch: cluster.Object) -> cluster.Object:
        """Merge patch."""
        url = f"{path}?{urlencode({'fieldManager': cluster.FIELD_MANAGER})}"
        return await self._request("PATCH", url, body=patch, content_type=_MERGE)

    async def list(self, selection: cluster.Selection) -> cluster.Object:
        """All objects of a selection."""
        items: list[cluster.Object] = []
        token, limit = "", PAGE
        while True:
            page = await self._page(selection, token, limit)
            if page is None:
                limit = paging.smaller(limit)
                continue
            limit = paging.larger(limit, PAGE)
            items.extend(filter(selection.is_of_use, page.get("items") or ()))
            token = page["metadata"].get("continue") or ""
            if not token:
                return {"metadata": page["metadata"], "items": items}

    async def _page(self, selection: cluster.Selection, token: str, limit: int) -> cluster.Object | None:
        """Return a page of a list; None: so many objects are too large together.

        An object that is too large alone is left out. None is that etcd takes, unless it takes more than by default.
        """
        query = {"fieldSelector": selection.field_selector, "limit": str(limit)} | (
            {"continue": token} if token else {}
        )
        path = f"{selection.path}?{urlencode(query)}"
        try:
            try:
                most = PAGE_BYTES if limit > 1 else ANSWER_BYTES
                return await self._answer("GET", path, form=_Form(most_bytes=most))
            except transport.TooLargeError:
                if limit > 1:
                    return None
                page = await self._answer("GET", path, form=_Form(accept=_METADATA_ONLY))
        except cluster.ExpiredError as error:
            # The pages that were read are of a list that is over: all of it is read again.
            raise errors.TemporaryError(str(error), delay_seconds=RETRY_SECONDS) from error
        except transport.BROKEN as error:
            raise self._unreachable(error) from error
        for item in page.get("items") or ():
            metadata = item["metadata"]
            name = f"{metadata.get('namespace', '')}/{metadata['name']}"
            LOG.error("%s: %s has more bytes than are read at once and is left out", selection.path, name)
        return {"metadata": page["metadata"]}

    async def watch(
        self, selection: cluster.Selection, *, resource_version: str
    ) -> AsyncGenerator[cluster.Event, None]:
        """Events since a resource version."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "fieldSelector": selection.field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        connections, via = await self._connected()
        try:
            request = _request("GET", f"{selection.path}?{urlencode(query)}", via)
            async with connections.stream(request, timeout_seconds=IDLE_SECONDS) as (head, stream):
                if head.status >= 300:
                    raise self._refused(request, head, await stream.rest(ANSWER_BYTES))
                yield cluster.OPENED, {}
                async for line in _lines(stream):
                    yield _event(line)
        except transport.BROKEN as error:
            raise self._unreachable(error) from error

    async def _request(
        self, method: str, path: str, *, body: cluster.Object | None = None, content_type: str = _JSON
    ) -> cluster.Object:
        try:
            return await self._answer(method, path, body=body, form=_Form(content_type))
        except transport.BROKEN as error:
            raise self._unreachable(error) from error

    async def _answer(
        self, method: str, path: str, *, body: cluster.Object | None = None, form: _Form = _PLAIN
    ) -> cluster.Object:
        """Return the answer to a request. Raises BROKEN."""
        connections, via = await self._connected()
        request = _request(method, path, via, body=body, form=form)
        head, text = await connections.fetch(request, timeout_seconds=REQUEST_SECONDS, most_bytes=form.most_bytes)
        if head.status >= 300:
            raise self._refused(request, head, text)
        return _object(text)

    async def _connected(self) -> tuple[transport.Connections, access.Access]:
        if self._reached is None:
            via = await asyncio.to_thread(self._source)
            # Somebody else may have read it meanwhile.
            if self._reached is None:
                made = transport.Connections(via.server, tls=via.tls, server_name=via.server_name)
                self._reached = made, via
        return self._reached

    def _forget(self) -> None:
        """Read the access anew for the next request."""
        ending, self._reached = self._reached, None
        if ending is not None:
            ending[0].close()

    def _refused(self, request: transport.Request, head: transport.Head, text: bytes) -> errors.CotenantError:
        if head.status == 401:
            self._forget()
        return _refusal(request, head, _object_or_empty(text))

    def _unreachable(self, error: BaseException) -> errors.TemporaryError:
        if isinstance(error, ssl.SSLCertVerificationError):
            # The cluster's CA may have been renewed, and kubelet with it the file.
            self._forget()
        text = errors.shortened(f"{type(error).__name__}: {error}")
        return errors.TemporaryError(f"the API server cannot be reached: {text}", delay_seconds=0)


def _request(
    method: str,
    path: str,
    via: access.Access,
    *,
    body: cluster.Object | None = None,
    form: _Form = _PLAIN,
) -> transport.Request:
    """`path`: as it stands, a selector in it is encoded already. Raises OSError: the token cannot be read."""
    headers = {"Accept": form.accept, "Content-Type": form.content_type, "User-Agent": cluster.FIELD_MANAGER}
    if via.token is not None:
        headers["Authorization"] = f"Bearer {via.token()}"
    data = b"" if body is None else json.dumps(body).encode()
    return transport.Request(method=method, target=path, headers=headers, body=data)


async def _lines(stream: transport.Stream) -> AsyncIterator[bytes]:
    """Yield the lines of a watch until it ends, or has been silent for long."""
    found, left_out = lines.Lines(), 0
    while part := await _part(stream):
        for line in found.feed(part):
            yield line
        if found.left_out > left_out:
            left_out = found.left_out
            LOG.error("an event of a watch has more than %d bytes and is left out", lines.LONGEST)
    if rest := found.rest():
        yield rest


async def _part(stream: transport.Stream) -> bytes:
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            return await stream.part()
    except TimeoutError:
        return b""


def _event(line: bytes) -> cluster.Event:
    event = _object(line)
    kind, manifest = event.get("type"), event.get("object")
    if kind in _EVENT_TYPES and isinstance(manifest, Mapping):
        return str(kind), manifest
    reply: Mapping[str, Any] = manifest if isinstance(manifest, Mapping) else {}
    message = f"watch ended: {errors.shortened(reply.get('message'))}"
    if reply.get("code") == 410:
        raise cluster.ExpiredError(message)
    raise errors.TemporaryError(message, delay_seconds=RETRY_SECONDS)


def _refusal(request: transport.Request, head: transport.Head, reply: cluster.Object) -> errors.CotenantError:
    status, path = head.status, request.target.partition("?")[0]
    message = f"{request.method} {path}: {status} {errors.shortened(reply.get('message') or head.reason)}"
    if status == 404:
        return cluster.NotFoundError(message)
    if status == 409 and reply.get("reason") == "AlreadyExists":
        return cluster.AlreadyExistsError(message)
    if status == 409 and reply.get("reason") == "Conflict":
        return cluster.ConflictError(message)
    if status == 410:
        return cluster.ExpiredError(message)
    if status in _REFUSED:
        return cluster.RefusedError(message)
    wait = head.headers.get("retry-after", "")
    return errors.TemporaryError(message, delay_seconds=float(wait) if wait.isdigit() else RETRY_SECONDS)


def _object(text: bytes) -> cluster.Object:
    try:
        value = _decoded(text)
    except (ValueError, RecursionError) as error:
        message = f"the API server's answer is no JSON: {errors.shortened(text)}"
        raise errors.TemporaryError(message, delay_seconds=RETRY_SECONDS) from error
    return value if isinstance(value, Mapping) else {}


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        # Anybody may write 10,000 levels into an object's managed fields.
        return json.loads(nesting.bounded(text))


def _object_or_empty(text: bytes) -> cluster.Object:
    """Return the Status of a refusal; proxies answer with other things."""
    return _object(text) if text.lstrip().startswith(b"{") else {}
