"""The connection to the API server through the `kubernetes` package, and the same credentials for kopf.

Credentials are read again when the server does not accept them any more: tokens of ServiceAccounts expire.
"""

import asyncio
import json
import logging
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import aiohttp
import kopf
from kubernetes.aio import client, config
from kubernetes.aio.config.config_exception import ConfigException

from cotenant_api import errors, nesting
from cotenant_operator.kube import api, aside

_LOGGER = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 30.0
CONNECTIONS: Final = 64
MAX_BYTES: Final = 8 * 1024 * 1024
"""Of an answer about one object; few objects have half of it. As values it may be twenty times as much."""
MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
"""Of an answer about many objects."""
# These modules carry no types.
_config: Any = config
_ApiClient: Any = client.ApiClient
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"

LoadConfiguration = Callable[[], Awaitable[client.Configuration]]


async def load(kubeconfig: Path | None) -> client.Configuration:
    """Server and credentials of a kubeconfig file, or of the pod's ServiceAccount.

    Raises:
        PermanentError: there are none.
    """
    configuration = client.Configuration()
    try:
        if kubeconfig is not None:
            await _config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
        else:
            _config.load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        text = f"no credentials for the API server: {error}; name a file with --kubeconfig"
        raise errors.PermanentError(text) from error
    configuration.connection_pool_maxsize = CONNECTIONS
    _read_environment_once(configuration)
    return configuration


def _read_environment_once(configuration: Any) -> None:
    """Proxies are looked up here: aiohttp would read them, and ~/.netrc in a thread, before every request."""
    configuration.client_session_kwargs = {"trust_env": False}
    parts = urlsplit(configuration.host)
    if configuration.proxy is None and not urllib.request.proxy_bypass(parts.netloc):
        configuration.proxy = urllib.request.getproxies().get(parts.scheme)


class Connection:
    """Sends requests over kept-alive connections.

    Args:
        load_configuration: reads server and credentials, at first and when they are refused.
    """

    def __init__(self, load_configuration: LoadConfiguration) -> None:
        self._load = load_configuration
        self._client: Any = None
        self._lock = asyncio.Lock()

    async def __call__(self, request: api.Request) -> tuple[int, Any]:
        """Status code and body. Raises TemporaryError where no answer came."""
        used = await self._opened()
        status, body = await self._once(used, request)
        if status != 401:
            return status, body
        _LOGGER.info("the API server refuses the credentials: reading them again")
        await self._renew(used)
        return await self._once(await self._opened(), request)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _opened(self) -> Any:
        async with self._lock:
            if self._client is None:
                self._client = _ApiClient(await self._load())
            return self._client

    async def _renew(self, refused: Any) -> None:
        async with self._lock:
            if self._client is refused:
                self._client = None
                # Requests in flight over the old connections end with a TemporaryError and are tried again.
                await refused.close()

    async def _once(self, used: Any, request: api.Request) -> tuple[int, Any]:
        headers = {
            "Accept": _METADATA_ONLY if request.metadata_only else api.JSON,
            "Content-Type": request.content_type,
        }
        await used.update_params_for_auth(headers, [], ["BearerToken"], request.path, request.method, request.body)
        query = f"?{urlencode(request.query)}" if request.query else ""
        try:
            response = await used.rest_client.request(
                request.method,
                f"{used.configuration.host}{request.path}{query}",
                headers=headers,
                body=request.body,
                _request_timeout=REQUEST_SECONDS,
            )
            data = await _read(response.response, request)
        except (aiohttp.ClientError, TimeoutError, OSError, RuntimeError) as error:
            text = f"{request.method} {request.path}: {error!r}"
            raise errors.TemporaryError(text, delay_seconds=1.0) from error
        return response.status, await _decoded(data)


async def _read(response: aiohttp.ClientResponse, request: api.Request) -> bytes:
    """Return the body. Raises TooLargeError."""
    parts, size = [], 0
    most = MAX_BYTES if int(request.query.get("limit", 1)) == 1 else MAX_PAGE_BYTES
    async for part in response.content.iter_any():
        size += len(part)
        if size > most:
            response.close()
            raise api.TooLargeError(f"{request.method} {request.path}: more than {most} bytes")
        parts.append(part)
    return b"".join(parts)


async def kopf_credentials(configuration: client.Configuration) -> kopf.ConnectionInfo:
    """Return the same server and credentials, as kopf takes them."""
    api_keys: Any = configuration
    scheme, _, token = (await api_keys.get_api_key_with_prefix("BearerToken") or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


async def _decoded(data: bytes) -> Any:
    try:
        return json.loads(await aside.aside(nesting.bounded, data))
    except ValueError:
        return data.decode(errors="replace")
