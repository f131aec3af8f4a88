"""A list and its watch beside what an API server does: pages, bookmarks, ends, versions too old, silence."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_cli.reading import watches

PATH = "/api/v1/things"


def thing(name: str, version: int, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team", "resourceVersion": str(version)}} | more


def event(kind: str, raw: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": raw}).encode()


class Server:
    """Answers in order, and keeps what it was asked; after the last answer it tells the watch to end."""

    def __init__(self) -> None:
        self.pages: list[tuple[int, dict[str, Any]]] = []
        self.streams: list[tuple[int, list[bytes]] | errors.CotenantError] = []
        self.asked: list[dict[str, str]] = []
        self.waited: list[float] = []

    def get(self, path: str, query: watches.Query) -> tuple[int, Mapping[str, Any]]:
        """As told."""
        assert path == PATH
        self.asked.append(dict(query))
        return self.pages.pop(0)

    @contextlib.contextmanager
    def lines(
        self, path: str, query: watches.Query, *, silence_seconds: float
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """As told, or its failure."""
        assert (path, silence_seconds) == (PATH, watches.SILENCE_SECONDS)
        self.asked.append(dict(query))
        answer = self.streams.pop(0)
        if isinstance(answer, errors.CotenantError):
            raise answer
        yield answer[0], iter(answer[1])

    def wait(self, seconds: float) -> bool:
        """Ends between two watches, when there is nothing left to be asked."""
        if seconds:
            self.waited.append(seconds)
        return bool(seconds) and not self.streams

    def lists(self, *raws: dict[str, Any], version: int, following: str = "") -> None:
        """A page of a list."""
        self.pages.append(
            (200, {"items": list(raws), "metadata": {"resourceVersion": str(version), "continue": following}})
        )


class Kept:
    """What is there, and what was told."""

    def __init__(self) -> None:
        self.there: dict[str, Any] = {}
        self.failures: list[str | None] = []

    def listed(self, found: Mapping[str, Any]) -> None:
        """See `watches.Sink`."""
        self.there = dict(found)

    def changed(self, key: str, found: Any) -> None:
        """See `watches.Sink`."""
        self.there[key] = found

    def gone(self, key: str) -> None:
        """See `watches.Sink`."""
        self.there.pop(key, None)

    def failed(self, error: errors.CotenantError | None) -> None:
        """See `watches.Sink`."""
        self.failures.append(None if error is None else str(error))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def run(server: Server) -> Callable[[], Kept]:
    """Runs it until the server has no more to say."""

    def ran() -> Kept:
        kept = Kept()
        watches.Watch(server, PATH, lambda raw: raw.get("value"), kept, wait=server.wait).run()
        return kept

    return ran


def test_a_watch_begins_where_the_list_ended_and_tells_what_changes(server: Server, run: Callable[[], Kept]) -> None:
    server.lists(thing("a", 1, value=1), version=7, following="more")
    server.lists(thing("b", 2, value=2), thing("c", 3), version=7)
    added, changed = event("ADDED", thing("d", 8, value=4)), event("MODIFIED", thing("a", 9, value=5))
    server.streams.append((200, [added, b"", changed, event("DELETED", thing("b", 10, value=2))]))
    kept = run()
    assert kept.there == {"team/a": 5, "team/d": 4}
    assert server.asked[1]["continue"] == "more"
    assert (server.asked[2]["resourceVersion"], server.asked[2]["allowWatchBookmarks"]) == ("7", "true")
    assert set(kept.failures) == {None}


def test_what_is_nothing_any_more_is_gone(server: Server, run: Callable[[], Kept]) -> None:
    server.lists(thing("a", 1, value=1), version=7)
    server.streams.append((200, [event("MODIFIED", thing("a", 9))]))
    assert run().there == {}


def test_a_watch_that_ends_goes_on_from_the_last_bookmark(server: Server, run: Callable[[], Kept]) -> None:
    server.lists(version=7)
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "90"}})
    server.streams += [(200, [bookmark]), (200, [])]
    run()
    assert [asked.get("resourceVersion") for asked in server.asked] == [None, "7", "90"]
    assert server.waited == [watches.PAUSE_SECONDS] * 2


@pytest.mark.parametrize(
    "too_old",
    [(410, [b'{"code": 410}']), (200, [event("ERROR", {"code": 410, "message": "too old resource version"})])],
    ids=["refused", "ended"],
)
def test_a_version_that_is_too_old_is_followed_by_a_list(
    server: Server, run: Callable[[], Kept], too_old: tuple[int, list[bytes]]
) -> None:
    server.lists(thing("a", 1, value=1), version=7)
    server.streams += [too_old, (200, [])]
    server.lists(thing("b", 20, value=2), version=21)
    kept = run()
    assert kept.there == {"team/b": 2}
    assert set(kept.failures) == {None}


def test_pages_that_expire_are_listed_from_the_beginning(server: Server, run: Callable[[], Kept]) -> None:
    server.lists(thing("a", 1, value=1), version=7, following="more")
    server.pages.append((410, {}))
    server.lists(thing("b", 1, value=2), version=9)
    server.streams.append((200, []))
    assert run().there == {"team/b": 2}


def test_a_silent_server_is_asked_again_less_and_less_often_from_where_it_was(
    server: Server, run: Callable[[], Kept]
) -> None:
    server.lists(thing("a", 1, value=1), version=7)
    silent = errors.TemporaryError("no answer", delay_seconds=1)
    server.streams += [silent] * 8
    server.streams.append((200, []))
    kept = run()
    assert server.waited[:-1] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert {asked["resourceVersion"] for asked in server.asked[1:]} == {"7"}
    assert kept.there == {"team/a": 1}
    assert kept.failures == [None, *["no answer"] * 8, None]


@pytest.mark.parametrize("line", [b'{"type": "ADDED", "obj', b'{"type": "ADDED"}', b"[]"])
def test_an_event_that_was_cut_is_asked_for_again(server: Server, run: Callable[[], Kept], line: bytes) -> None:
    server.lists(version=7)
    server.streams += [(200, [line]), (200, [event("ADDED", thing("a", 8, value=1))])]
    assert run().there == {"team/a": 1}


def test_a_refusal_names_the_remedy_and_is_followed_by_a_list(server: Server, run: Callable[[], Kept]) -> None:
    server.lists(version=7)
    server.streams += [(403, [b'{"message": "pods is forbidden"}']), (200, [])]
    server.lists(version=8)
    kept = run()
    assert kept.failures[1] is not None
    assert "pods is forbidden" in kept.failures[1]
    assert "viewer.yaml" in kept.failures[1]
    assert server.waited[0] == watches.MAX_DELAY_SECONDS


@pytest.mark.parametrize(("code", "pause"), [(429, 0.2), (503, 0.2), (400, watches.MAX_DELAY_SECONDS)])
def test_only_what_may_pass_is_asked_again_soon(
    server: Server, run: Callable[[], Kept], code: int, pause: float
) -> None:
    server.lists(version=7)
    server.streams += [(code, [b'{"message": "no"}']), (200, [])]
    server.lists(version=8)
    run()
    assert server.waited[0] == pause


def test_a_kind_that_is_not_installed_is_told_with_the_remedy(server: Server, run: Callable[[], Kept]) -> None:
    server.pages.append((404, {"message": "the server could not find the requested resource"}))
    server.lists(version=8)
    server.streams.append((200, []))
    assert "install the CRDs" in str(run().failures[0])


def test_a_page_that_is_no_list_is_told_and_not_taken_for_an_empty_one(server: Server, run: Callable[[], Kept]) -> None:
    server.pages.append((200, {"message": "log in"}))
    server.lists(version=8)
    server.streams.append((200, []))
    assert "the answer is no list" in str(run().failures[0])


def test_an_object_that_is_nested_too_deep_ends_no_watch(server: Server, run: Callable[[], Kept]) -> None:
    deep = event("ADDED", thing("deep", 8, value=1, spec="deep")).replace(
        b'"deep"}}', b"[" * 5000 + b"]" * 5000 + b"}}"
    )
    server.lists(version=7)
    server.streams += [(200, [deep, event("ADDED", thing("a", 9, value=2))])]
    kept = run()
    assert kept.there == {"team/deep": 1, "team/a": 2}
    assert not any(kept.failures)
