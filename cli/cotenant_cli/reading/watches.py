"""Lists a collection and watches it, for ever: what a command needs that shows a cluster live.

A list is followed by a watch from its version, which bookmarks keep young. A watch that ends is continued; one that is
too old (410) is followed by a new list. Each runs in a thread of its own, and talks through what it is given. The
informer of the Kubernetes library is not used: it lists without pages, asks for no bookmarks, makes models of all
objects, waits for a silent server for ever, and asks one that is gone again without a pause.
"""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Generic, Protocol, TypeVar

from cotenant_api import errors, nesting, paging
from cotenant_cli.reading import answers, pages

Object = Mapping[str, Any]
Read = TypeVar("Read")
Told_contra = TypeVar("Told_contra", contravariant=True)
Query = Sequence[tuple[str, str]]

PAGE: Final = 500
WATCH_SECONDS: Final = 290
SILENCE_SECONDS: Final = WATCH_SECONDS + 30.0
"""Kinds that rest send nothing until the API server ends the watch."""
FIRST_DELAY_SECONDS: Final = 0.2
MAX_DELAY_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.05
"""Between two watches, so that a server that ends each at once is not flooded."""
_EXPIRED: Final = (http.client.GONE, http.client.GATEWAY_TIMEOUT)
_READER: Final = "manifests/rbac/viewer.yaml has the role that a reader needs"
_REMEDIES: Final = {
    http.client.UNAUTHORIZED: _READER,
    http.client.FORBIDDEN: _READER,
    http.client.NOT_FOUND: "install the CRDs of Cotenant (manifests/crds)",
}


class Source(pages.Source, Protocol):
    """An API server; see `kube.Connection`."""

    def lines(
        self, path: str, query: Query, /, *, silence_seconds: float
    ) -> AbstractContextManager[tuple[int, Iterator[bytes]]]:
        """Status and lines of an answer that goes on. Raises TemporaryError."""
        ...


class Sink(Protocol[Told_contra]):
    """Where it is told, in order, by the thread of the watch; a key is `namespace/name`, or `name`."""

    def listed(self, found: Mapping[str, Told_contra], /) -> None:
        """All that there are."""

    def changed(self, key: str, found: Told_contra, /) -> None:
        """One is new, or not as it was."""

    def gone(self, key: str, /) -> None:
        """There is one no more."""

    def failed(self, error: errors.CotenantError | None, /) -> None:
        """Take in that what was told last may be old, and why; None: it is told of changes again."""


class _GoneError(Exception):
    """The version to watch from is too old, or a list changed faster than it was read."""


class Watch(Generic[Read]):
    """Keeps a sink up to date with one collection.

    Args:
        read: makes something of an object, or nothing, and then there is none; raises nothing.
        wait: waits so many seconds; true: it was told to end meanwhile.
    """

    def __init__(
        self,
        source: Source,
        path: str,
        read: Callable[[Object], Read | None],
        sink: Sink[Read],
        *,
        wait: Callable[[float], bool],
    ) -> None:
        self._source, self._path, self._read, self._sink, self._wait = source, path, read, sink, wait
        self._version = ""

    def run(self) -> None:
        """Until told to end."""
        delay = FIRST_DELAY_SECONDS
        while True:
            pause = PAUSE_SECONDS
            try:
                if not self._version:
                    self._list()
                self._watch()
                delay = FIRST_DELAY_SECONDS
            except _GoneError:
                self._version = ""
            except errors.CotenantError as error:
                self._sink.failed(error)
                pause, delay = delay, min(2 * delay, MAX_DELAY_SECONDS)
                if not isinstance(error, errors.TemporaryError):
                    self._version, pause = "", MAX_DELAY_SECONDS
            if self._wait(pause):
                return

    def _list(self) -> None:
        found: dict[str, Read] = {}
        following, limit = "", PAGE
        while True:
            status, page, limit = pages.page(self._source, self._path, (), following=following, limit=limit)
            _raise_for(self._path, status, page)
            for raw in answers.items(self._path, page):
                one = self._read(raw)
                if one is not None:
                    found[_key(raw)] = one
            limit = paging.larger(limit, PAGE)
            metadata = page.get("metadata") or {}
            following = metadata.get("continue") or ""
            if not following:
                break
        self._version = str(metadata.get("resourceVersion") or "")
        self._sink.listed(found)
        self._sink.failed(None)

    def _watch(self) -> None:
        query = [
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(WATCH_SECONDS)),
            ("resourceVersion", self._version),
        ]
        with self._source.lines(self._path, query, silence_seconds=SILENCE_SECONDS) as (status, lines):
            if status != http.client.OK:
                _raise_for(self._path, status, _decoded(b"".join(lines)))
            self._sink.failed(None)
            for line in lines:
                if line.strip():
                    self._deliver(_decoded(line))
                if self._wait(0):
                    return

    def _deliver(self, event: Mapping[str, Any]) -> None:
        raw = event.get("object")
        if not isinstance(raw, dict):
            raise errors.TemporaryError(f"watch of {self._path}: sent what is no event", delay_seconds=0)
        kind = event.get("type")
        if kind == "ERROR":
            _raise_for(self._path, int(raw.get("code") or http.client.INTERNAL_SERVER_ERROR), raw)
        elif kind == "DELETED":
            self._sink.gone(_key(raw))
        elif kind in ("ADDED", "MODIFIED"):
            found = self._read(raw)
            if found is None:
                self._sink.gone(_key(raw))
            else:
                self._sink.changed(_key(raw), found)
        self._version = str((raw.get("metadata") or {}).get("resourceVersion") or self._version)


def _key(raw: Object) -> str:
    metadata = raw["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _decoded(text: bytes) -> Mapping[str, Any]:
    try:
        decoded = json.loads(nesting.bounded(text))
    except ValueError as error:
        raise errors.TemporaryError(f"a watch was cut: {error}", delay_seconds=0) from error
    return decoded if isinstance(decoded, dict) else {}


def _raise_for(path: str, status: int, answer: Mapping[str, Any]) -> None:
    if status == http.client.OK:
        return
    if status in _EXPIRED:
        raise _GoneError
    raise answers.refusal(path, status, answer, remedies=_REMEDIES)
