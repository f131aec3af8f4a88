"""The transport over HTTP: kept-alive connections to one API server, configured as every Kubernetes client is."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import urlsplit

from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from cotenant_api import errors, lines
from cotenant_extender.kube import connection, pool, transport

LOG = logging.getLogger(__name__)

CONNECTIONS = 512
"""More than all kinds of requests together have slots (see `writer`, `reports` and `binder`), and the watches."""
ANSWER_BYTES = lines.LONGEST
"""Of an answer that is read whole: one object has no more, and a list is asked for in smaller pages."""
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
        self._pool: pool.Pool | None = None
        self._host = self._prefix = ""
        self._authorization: str | None = None
        self._read_at = 0.0

    async def __aenter__(self) -> Self:
        configuration = await self._load()
        server = urlsplit(configuration.host)
        tls = _tls(configuration) if server.scheme == "https" else None
        port = server.port or (443 if server.scheme == "https" else 80)
        self._prefix, self._host = server.path.rstrip("/"), server.netloc.rpartition("@")[2]
        self._pool = pool.Pool(pool.Server(server.hostname or "", port, tls), limit=CONNECTIONS)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.close()
            # Whoever reads from a connection is told that it has ended before the event loop may end.
            await asyncio.sleep(0)

    async def request(self, request: transport.Request) -> transport.Answer:
        """Send one and read its whole answer."""
        connections = await self._ready()
        try:
            async with asyncio.timeout(request.timeout_seconds):
                taken = await connections.take()
                try:
                    body = await taken.exchange(self._bytes(request), most_bytes=ANSWER_BYTES)
                except BaseException:
                    taken.close()
                    raise
                finally:
                    connections.give_back(taken)
        except connection.TooLargeError as error:
            if request.method != "GET":
                raise _unanswered(request, error) from error
            raise transport.TooLargeError(f"{request.path.partition('?')[0]}: {error}") from error
        except OSError as error:
            raise _unanswered(request, error) from error
        if taken.status == 401:
            self._read_at = 0.0
        return transport.Answer(taken.status, taken.headers, body)

    @asynccontextmanager
    async def stream(self, request: transport.Request) -> AsyncIterator[transport.Stream]:
        """Send one; what breaks while its answer is read is raised where it is read."""
        connections = await self._ready()
        try:
            async with asyncio.timeout(request.timeout_seconds):
                taken = await connections.take()
        except OSError as error:
            raise _unanswered(request, error) from error
        try:
            await self._begin(taken, request)
            yield _Lines(request, taken)
        finally:
            taken.close()
            connections.give_back(taken)

    async def _begin(self, taken: connection.Connection, request: transport.Request) -> None:
        try:
            async with asyncio.timeout(request.timeout_seconds):
                await taken.begin(self._bytes(request))
        except OSError as error:
            raise _unanswered(request, error) from error
        if taken.status == 401:
            self._read_at = 0.0

    async def _ready(self) -> pool.Pool:
        if self._pool is None:
            raise errors.PermanentError("the transport is not open")
        if self._clock() - self._read_at >= CREDENTIAL_SECONDS:
            try:
                await self._load()
            except errors.InvalidInputError as error:
                # It could be read at the start: whoever asks tries again, as where the API server is away.
                raise transport.UnansweredError(f"the credentials cannot be read: {error}") from error
        return self._pool

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

    def _bytes(self, request: transport.Request) -> list[bytes]:
        """Head and body. Answers are not asked for compressed: the API server would spend its CPU on that."""
        head = (
            f"{request.method} {self._prefix}{request.path} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Accept: {request.accept}\r\nUser-Agent: cotenant-extender\r\n"
        )
        if self._authorization:
            head += f"Authorization: {self._authorization}\r\n"
        if request.body is None:
            return [f"{head}\r\n".encode()]
        length = f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n\r\n"
        return [f"{head}{length}".encode(), request.body]


class _Lines:
    """The lines of one streamed answer."""

    def __init__(self, request: transport.Request, taken: connection.Connection) -> None:
        self._request, self._taken = request, taken
        self.status = taken.status

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines, as they come."""
        found, left_out = lines.Lines(), 0
        try:
            while part := await self._part():
                for line in found.feed(part):
                    yield line + b"\n"
                if found.left_out > left_out:
                    left_out = found.left_out
                    path = self._request.path.partition("?")[0]
                    LOG.error("%s: an event of more than %d bytes is left out", path, lines.LONGEST)
            if rest := found.rest():
                yield rest
        except OSError as error:
            raise _unanswered(self._request, error) from error

    async def _part(self) -> bytes:
        async with asyncio.timeout(self._request.timeout_seconds):
            return await self._taken.parts()


def _tls(configuration: kubernetes_client.Configuration) -> ssl.SSLContext:
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
