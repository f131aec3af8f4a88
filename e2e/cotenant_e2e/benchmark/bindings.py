"""Counts the pods of a namespace as they are bound, by a watch of bound pods that carries metadata alone."""

import contextlib
import http.client
import re
import threading
import time
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, urlencode, urlsplit

from cotenant_e2e import waiting
from cotenant_e2e.client import Client

METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
WATCH_SECONDS: Final = 900
READ_BYTES: Final = 256 * 1024
FIRST_EVENT: Final = b'{"type":"ADDED"'
PAUSE_SECONDS: Final = 0.05
_VERSION: Final = re.compile(rb'"resourceVersion":"(\d+)"')


class Bindings:
    """Follows one namespace for the block.

    Attributes:
        times: monotonic seconds at which a pod was seen bound, in order.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{quote(namespace)}/pods"
        self.times: list[float] = []
        self._version = ""
        self._stopped = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._follow, name=f"bindings of {namespace}", daemon=True)

    def __enter__(self) -> Self:
        self._version = self._client.get(self._path, limit="1")["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        if self._connection and self._connection.sock:
            with contextlib.suppress(OSError):
                self._connection.sock.close()

    def wait(self, count: int, seconds: float) -> None:
        """Return when so many pods were bound.

        Raises:
            NotReadyError: they were not, in time.
        """
        try:
            waiting.wait_until(lambda: len(self.times) >= count, f"{count} bound pods", seconds)
        except waiting.NotReadyError as failure:
            raise waiting.NotReadyError(f"{failure}; {len(self.times)} are") from failure

    def _follow(self) -> None:
        """Read on where the watch was: the API server ends that of a reader that is slow for a moment."""
        while not self._stopped.is_set():
            try:
                self._read()
            except (OSError, http.client.HTTPException, AttributeError, ValueError):
                # Cut off, or stopped: a socket that is closed under a read shows as AttributeError or ValueError.
                self._stopped.wait(PAUSE_SECONDS)

    def _read(self) -> None:
        query = {
            "watch": "1",
            "fieldSelector": "spec.nodeName!=",
            "resourceVersion": self._version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        netloc = urlsplit(self._client.server).netloc
        self._connection = http.client.HTTPSConnection(netloc, context=self._client.tls, timeout=WATCH_SECONDS)
        with contextlib.closing(self._connection) as connection:
            connection.request("GET", f"{self._path}?{urlencode(query)}", headers={"Accept": METADATA_ONLY})
            response, rest = connection.getresponse(), b""
            while part := response.read1(READ_BYTES):
                *lines, rest = (rest + part).split(b"\n")
                # What is read at once was sent at once.
                now = time.monotonic()
                self.times += [now for line in lines if line.startswith(FIRST_EVENT)]
                if lines and (version := _VERSION.search(lines[-1])):
                    self._version = version[1].decode()
