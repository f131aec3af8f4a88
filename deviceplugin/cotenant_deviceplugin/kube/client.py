"""The API server through `kubernetes.aio`, with plain objects instead of its model classes.

Foreign errors are translated here and nowhere else. Nothing is tried again here.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client, config

from cotenant_api import errors
from cotenant_deviceplugin.kube import cluster

REQUEST_SECONDS = 10
WATCH_SECONDS = 240
"""How long the API server keeps a watch open."""
IDLE_SECONDS = 90
"""A watch that is silent for so long is opened anew: bookmarks come about once a minute."""
RETRY_SECONDS = 1.0

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)
_REFUSED = frozenset({400, 403, 405, 409, 415, 422})
_EVENT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", cluster.BOOKMARK})


class KubernetesCluster:
    """The API server of a kubeconfig.

    The kubeconfig is read again when its token is refused, so that renewing the file is enough.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._client: Any = None

    async def close(self) -> None:
        """End its connections."""
        ending, self._client = self._client, None
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
        api = await self._connected()
        serialized = await api.param_serialize(
            method, path, header_params={"Accept": _JSON, "Content-Type": content_type}, auth_settings=["BearerToken"]
        )
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=REQUEST_SECONDS)
        try:
            answer = await api.rest_client.request(
                method, serialized[1], headers=serialized[2], body=body, _request_timeout=timeout
            )
            response: aiohttp.ClientResponse = answer.response
            if response.status < 300:
                return response
            text = await response.read()
        except _UNREACHABLE as error:
            raise _unreachable(error) from error
        if response.status == 401:
            await self.close()
        raise _refusal(method, response, _object_or_empty(text))

    async def _connected(self) -> Any:
        if self._client is None:
            settings, load = client.Configuration(), _untyped(config).load_kube_config
            try:
                await load(config_file=str(self._kubeconfig), client_configuration=settings)
            except (config.ConfigException, OSError, ValueError) as error:
                remedy = f"must be a kubeconfig that can be read: {errors.shortened(str(error))}"
                raise errors.InvalidInputError("kubeconfig", str(self._kubeconfig), remedy) from error
            self._client = _untyped(client).ApiClient(configuration=settings)
        return self._client


def _untyped(module: object) -> Any:
    """A module whose functions carry no types."""
    return module


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
