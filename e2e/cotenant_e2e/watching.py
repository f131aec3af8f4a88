"""Follows the objects of a collection: every event in the order in which the API server made it.

A background thread reads; whoever follows takes events from a queue, so none is missed while it is busy.
"""

import contextlib
import http.client
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

from cotenant_api import errors
from cotenant_e2e.client import Client, Json

WATCH_SECONDS = 300


@dataclass(frozen=True)
class Event:
    """One change. `type`: ADDED, MODIFIED or DELETED."""

    type: str
    object: Json


class Follower:
    """Lists a collection, then follows it until the block ends. Those listed come first, as ADDED."""

    def __init__(self, client: Client, path: str) -> None:
        self._client, self._path = client, path
        self._events: queue.SimpleQueue[Event | Exception] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._follow, name=f"follow {path}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        if self._connection and self._connection.sock:
            with contextlib.suppress(OSError):
                self._connection.sock.close()

    def events(self, *, seconds: float) -> Iterator[Event]:
        """Events that are there; waits up to `seconds` for the first.

        Raises:
            TemporaryError: the API server no longer knows the place to go on from, so events may be missing.
        """
        try:
            yield self._taken(self._events.get(timeout=seconds))
            while True:
                yield self._taken(self._events.get_nowait())
        except queue.Empty:
            return

    @staticmethod
    def _taken(event: Event | Exception) -> Event:
        if isinstance(event, Exception):
            raise event
        return event

    def _follow(self) -> None:
        try:
            listed = self._client.get(self._path)
            version = listed["metadata"]["resourceVersion"]
            for item in listed["items"]:
                self._events.put(Event("ADDED", item))
            while not self._stopped.is_set():
                version = self._watch(version)
        except Exception as error:  # noqa: BLE001 - handed to whoever follows
            if not self._stopped.is_set():
                self._events.put(error)

    def _watch(self, version: str) -> str:
        """Follow until the connection ends; the resource version to go on from."""
        query = urlencode(
            {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(WATCH_SECONDS),
            }
        )
        netloc = urlsplit(self._client.server).netloc
        self._connection = http.client.HTTPSConnection(netloc, context=self._client.tls, timeout=WATCH_SECONDS + 10)
        headers = {"Authorization": f"Bearer {self._client.token}"} if self._client.token else {}
        try:
            self._connection.request("GET", f"{self._path}?{query}", headers=headers)
            for line in self._connection.getresponse():
                version = self._received(json.loads(line))
        except (OSError, http.client.HTTPException, AttributeError):
            # Cut off: go on from the last version (closing the socket under a read shows as AttributeError).
            self._stopped.wait(0.2)
        finally:
            self._connection.close()
        return version

    def _received(self, event: Json) -> str:
        """Pass an event on; its resource version."""
        if event["type"] == "ERROR":
            raise errors.TemporaryError(f"watch of {self._path}: {event['object'].get('message')}", delay_seconds=1)
        if event["type"] != "BOOKMARK":
            self._events.put(Event(event["type"], event["object"]))
        return str(event["object"]["metadata"]["resourceVersion"])
