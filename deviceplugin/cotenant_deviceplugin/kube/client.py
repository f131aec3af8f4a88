"""The API server through aiohttp, with plain objects: a client library would take a third of the agent's memory.

Foreign errors are translated here and nowhere else. Nothing is tried again here.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
import yarl
from aiohttp import http_exceptions

from cotenant_api import errors
from cotenant_deviceplugin.kube import access, cluster

REQUEST_SECONDS = 10
WATCH_SECONDS = 240
"""How long the API server keeps a watch open."""
IDLE_SECONDS = 90
"""A watch that is silent for so long is opened anew: bookmarks come about once a minute."""
RETRY_SECONDS = 1.0
LINE_BYTES = 4 * 1024 * 1024
"""The longest event of a watch; etcd takes objects of 1.5 MiB."""

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_TOO_LONG = (ValueError, http_exceptions.HttpProcessingError)
"""A line of a watch beyond `LINE_BYTES`, in words that depend on aiohttp's release."""
_UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError, *_TOO_LONG)
_REFUSED = frozenset({400, 403, 405, 409, 415, 422})
_EVENT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", cluster.BOOKMARK})


class KubernetesCluster:
    """The API server that an access leads to.

    Args:
        source: reads the access; it is read again when the token is refused, so that renewing a kubeconfig is enough.
    """

    def __init__(self, source: access.Source) -> None:
        self._source = source
        self._access: access.Access | None = None
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """End its connections."""
        ending, self._session = self._session, None
        if ending is not None:
            await ending.close()

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
        return await self._request("GET", f"{selection.path}?{urlencode({'fieldSelector': selection.field_selector})}")

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
        response = await self._send("GET", f"{selection.path}?{urlencode(query)}", timeout_seconds=2 * WATCH_SECONDS)
        try:
            yield cluster.OPENED, {}
            while line := await _line(response.content):
                yield _event(line)
        finally:
            # Not released: what is left of the stream must not be read into the pool.
            response.close()

    async def _request(
        self, method: str, path: str, *, body: cluster.Object | None = None, content_type: str = _JSON
    ) -> cluster.Object:
        response = await self._send(method, path, body=body, content_type=content_type, timeout_seconds=REQUEST_SECONDS)
        try:
            return _object(await response.read())
        except _UNREACHABLE as error:
            raise _unreachable(error) from error

    async def _send(
        self,
        method: str,
        path: str,
        *,
        timeout_seconds: float,
        body: cluster.Object | None = None,
        content_type: str = _JSON,
    ) -> aiohttp.ClientResponse:
        """The response, its body unread; an error status is raised."""
        session, via = await self._connected()
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=REQUEST_SECONDS)
        headers = {"Accept": _JSON, "Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        # The path is encoded as it stands: a selector's characters must not be changed.
        url = yarl.URL(f"{via.server}{path}", encoded=True)
        try:
            if via.token is not None:
                headers["Authorization"] = f"Bearer {via.token()}"
            response = await session.request(
                method,
                url,
                headers=headers,
                data=data,
                timeout=timeout,
                server_hostname=via.server_name,
                allow_redirects=False,  # the token is for this server alone
            )
            if response.status < 300:
                return response
            text = await response.read()
        except aiohttp.ClientConnectorCertificateError as error:
            # The cluster's CA may have been renewed, and kubelet with it the file.
            await self.close()
            raise _unreachable(error) from error
        except _UNREACHABLE as error:
            raise _unreachable(error) from error
        if response.status == 401:
            await self.close()
        raise _refusal(method, response, _object_or_empty(text))

    async def _connected(self) -> tuple[aiohttp.ClientSession, access.Access]:
        if self._session is None or self._access is None:
            via = await asyncio.to_thread(self._source)
            if self._session is None:
                self._session = aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=via.tls or False),
                    headers={"User-Agent": cluster.FIELD_MANAGER},
                    read_bufsize=LINE_BYTES // 2,  # aiohttp takes lines of twice its buffer
                )
            self._access = via
        return self._session, self._access


async def _line(stream: aiohttp.StreamReader) -> bytes:
    """The next line of a watch; empty at its end, also when it has been silent for long."""
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            return await stream.readline()
    except TimeoutError:
        return b""
    except _UNREACHABLE as error:
        raise _unreachable(error) from error


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


def _refusal(method: str, response: aiohttp.ClientResponse, reply: cluster.Object) -> errors.CotenantError:
    status = response.status
    message = f"{method} {response.url.path}: {status} {errors.shortened(reply.get('message') or response.reason)}"
    if status == 404:
        return cluster.NotFoundError(message)
    if status == 409 and reply.get("reason") == "AlreadyExists":
        return cluster.AlreadyExistsError(message)
    if status == 410:
        return cluster.ExpiredError(message)
    if status in _REFUSED and reply.get("reason") != "Conflict":
        return cluster.RefusedError(message)
    wait = response.headers.get("Retry-After", "")
    return errors.TemporaryError(message, delay_seconds=float(wait) if wait.isdigit() else RETRY_SECONDS)


def _unreachable(error: BaseException) -> errors.TemporaryError:
    text = errors.shortened(f"{type(error).__name__}: {error}")
    return errors.TemporaryError(f"the API server cannot be reached: {text}", delay_seconds=0)


def _object(text: bytes) -> cluster.Object:
    try:
        value = json.loads(text)
    except ValueError as error:
        message = f"the API server's answer is no JSON: {errors.shortened(text)}"
        raise errors.TemporaryError(message, delay_seconds=RETRY_SECONDS) from error
    return value if isinstance(value, Mapping) else {}


def _object_or_empty(text: bytes) -> cluster.Object:
    """The Status of a refusal; proxies answer with other things."""
    return _object(text) if text.lstrip().startswith(b"{") else {}
