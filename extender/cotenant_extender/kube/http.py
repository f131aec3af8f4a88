"""The transport over HTTP: kept-alive connections of aiohttp, configured as every Kubernetes client is."""

import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from cotenant_api import errors
from cotenant_extender.kube import transport

CONNECTIONS = 256
LINE_BYTES = 4 * 1024 * 1024
"""An object of a watch is one line; etcd takes none above 1.5 MiB."""
CREDENTIAL_SECONDS = 60.0
"""How often a token file is read again."""


class HTTP:
    """Requests to one API server.

    Args:
        kubeconfig: a kubeconfig file; None: the ServiceAccount of the pod.
        clock: monotonic seconds.
    """

    def __init__(self, kubeconfig: str | None, *, clock: Callable[[], float]) -> None:
        self._kubeconfig, self._clock = kubeconfig, clock
        self._session: aiohttp.ClientSession | None = None
        self._server = ""
        self._authorization: str | None = None
        self._read_at = 0.0

    async def __aenter__(self) -> Self:
        configuration = await self._load()
        self._server = configuration.host
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS, ssl=_tls(configuration), keepalive_timeout=90, socket_factory=_probed_socket
        )
        self._session = aiohttp.ClientSession(connector=connector, read_bufsize=LINE_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(self, request: transport.Request) -> transport.Answer:
        """Send one and read its whole answer."""
        session = await self._ready()
        try:
            async with session.request(
                request.method,
                self._server + request.path,
                data=request.body,
                headers=self._headers(request),
                timeout=aiohttp.ClientTimeout(total=request.timeout_seconds),
            ) as response:
                answer = transport.Answer(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unanswered(request, error) from error
        if answer.status == 401:
            self._read_at = 0.0
        return answer

    @asynccontextmanager
    async def stream(self, request: transport.Request) -> AsyncIterator[transport.Stream]:
        """Send one; what breaks while its answer is read is raised where it is read."""
        session = await self._ready()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=request.timeout_seconds)
        try:
            response = await session.request(
                request.method, self._server + request.path, headers=self._headers(request), timeout=timeout
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unanswered(request, error) from error
        if response.status == 401:
            self._read_at = 0.0
        try:
            yield _Lines(request, response)
        finally:
            response.close()

    async def _ready(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise errors.PermanentError("the transport is not open")
        if self._clock() - self._read_at >= CREDENTIAL_SECONDS:
            await self._load()
        return self._session

    async def _load(self) -> kubernetes_client.Configuration:
        configuration = kubernetes_client.Configuration()
        try:
            if self._kubeconfig is None:
                kubernetes_config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
            else:
                await kubernetes_config.load_kube_config(  # type: ignore[no-untyped-call]
                    self._kubeconfig, client_configuration=configuration, persist_config=False
                )
        except (kubernetes_config.ConfigException, OSError, ValueError) as error:
            remedy = "name a readable kubeconfig with --kubeconfig, or run in a pod with a ServiceAccount"
            raise errors.InvalidInputError("kubeconfig", self._kubeconfig, f"{remedy}: {error}") from error
        self._authorization = await configuration.get_api_key_with_prefix("BearerToken")
        self._read_at = self._clock()
        return configuration

    def _headers(self, request: transport.Request) -> dict[str, str]:
        headers = {"Accept": transport.JSON, "User-Agent": "cotenant-extender"}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if self._authorization:
            headers["Authorization"] = self._authorization
        return headers


class _Lines:
    """The lines of one streamed answer."""

    def __init__(self, request: transport.Request, response: aiohttp.ClientResponse) -> None:
        self._request, self._response = request, response
        self.status = response.status

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines, as they come."""
        try:
            async for line in self._response.content:
                yield line
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _unanswered(self._request, error) from error


def _probed_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that finds out within a minute that its peer is gone: a watch may be silent for long."""
    family, kind, protocol, _, _ = address
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
        found.setsockopt(socket.IPPROTO_TCP, option, value)
    return found


def _tls(configuration: kubernetes_client.Configuration) -> ssl.SSLContext | bool:
    if not configuration.host.startswith("https"):
        return False
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _unanswered(request: transport.Request, error: Exception) -> transport.UnansweredError:
    kind = type(error).__name__
    return transport.UnansweredError(f"{request.method} {request.path.partition('?')[0]}: {kind}: {error}"[:512])
