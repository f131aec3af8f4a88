"""Follows the objects of a collection: every event in the order in which the API server made it.

A background thread reads; whoever follows takes events from a queue, so none is missed while it is busy. An API
server that was started again does not know the versions before its start: then a new list shows the difference.
"""

import contextlib
import http.client
import json
import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

from cotenant_api import errors
from cotenant_e2e.client import APIError, Client, Json

WATCH_SECONDS = 300
PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class Event:
    """One change. `type`: ADDED, MODIFIED or DELETED."""

    type: str
    object: Json


class LostPlaceError(errors.TemporaryError):
    """The API server no longer knows the place to go on from."""


class Follower:
    """Lists a collection, then follows it until the block ends. Those listed come first, as ADDED.

    Attributes:
        lists: how many lists were needed; what happened between two of them shows only by its result.
    """

    def __init__(self, client: Client, path: str) -> None:
        self.lists = 0
        self._client, self._path = client, path
        self._events: queue.SimpleQueue[Event | Exception] = queue.SimpleQueue()
        self._known: dict[str, Json] = {}
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
            CotenantError: the collection could not be listed when the following began.
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
            version = self._list()
            while not self._stopped.is_set():
                try:
                    version = self._watch(version) if version else self._list()
                except LostPlaceError:
                    version = ""
                except (APIError, errors.TemporaryError):
                    self._stopped.wait(PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - handed to whoever follows
            if not self._stopped.is_set():
                self._events.put(error)

    def _list(self) -> str:
        """Pass on how a list differs from what is known; its resource version."""
        listed = self._client.get(self._path)
        self.lists += 1
        for event in difference(self._known, listed["items"]):
            self._pass_on(event)
        return str(listed["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        """Follow until the connection ends; the resource version to go on from.

        Raises:
            LostPlaceError: the version is too old.
        """
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
            answer = self._connection.getresponse()
            if answer.status == http.client.GONE:
                raise LostPlaceError(f"watch of {self._path} from {version}", delay_seconds=0)
            # An API server that has just started refuses for a moment.
            lines: Iterable[bytes] = answer if answer.status == http.client.OK else ()
            for line in lines:
                version = self._received(json.loads(line))
        except (OSError, http.client.HTTPException, AttributeError, ValueError):
            # Cut off, perhaps in a line (closing the socket under a read shows as AttributeError).
            pass
        finally:
            self._connection.close()
        self._stopped.wait(PAUSE_SECONDS)
        return version

    def _received(self, event: Json) -> str:
        """Pass an event on; its resource version."""
        if event["type"] == "ERROR":
            raise LostPlaceError(f"watch of {self._path}: {event['object'].get('message')}", delay_seconds=0)
        if event["type"] != "BOOKMARK":
            self._pass_on(Event(event["type"], event["object"]))
        return str(event["object"]["metadata"]["resourceVersion"])

    def _pass_on(self, event: Event) -> None:
        uid = event.object["metadata"]["uid"]
        if event.type == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = event.object
        self._events.put(event)


def difference(known: dict[str, Json], listed: list[Json]) -> list[Event]:
    """Return the events that lead from the objects known by UID to those listed; those that went come first."""
    present = {item["metadata"]["uid"] for item in listed}
    gone = [Event("DELETED", item) for uid, item in known.items() if uid not in present]
    come = []
    for item in listed:
        before = known.get(item["metadata"]["uid"])
        if before is None:
            come.append(Event("ADDED", item))
        elif before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            come.append(Event("MODIFIED", item))
    return [*gone, *come]
