"""The watches that fill the store, beside an API server that is played."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from cli import kit as raw
from cotenant_api import errors
from cotenant_cli.reading import cluster, watches
from cotenant_dashboard.watching import live, store, watchers
from dashboard import kit

SECONDS = 5.0


class Server:
    """Lists what there is; a watch of it says nothing, and ends when it is told to."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.ending = failure, threading.Event()
        self.asked: set[str] = set()
        self._items: Mapping[str, Sequence[Mapping[str, Any]]] = {
            cluster.GPUNODES: [raw.gpunode(raw.gpu())],
            cluster.pods_path(None): [raw.pod("a", on="GPU-0"), {"metadata": {"name": "other", "namespace": "x"}}],
            watchers.DLJOBS: [raw.dljob("waits"), raw.dljob("broken", observedGeneration="x")],
            cluster.POLICIES: [raw.policy()],
        }

    def get(self, path: str, _query: watches.Query) -> tuple[int, Mapping[str, Any]]:
        """A list, or the failure."""
        self.asked.add(path)
        if self.failure is not None and path == cluster.pods_path(None):
            raise self.failure
        return 200, {"items": self._items[path], "metadata": {"resourceVersion": "7"}}

    @contextlib.contextmanager
    def lines(
        self, _path: str, _query: watches.Query, *, silence_seconds: float
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Nothing, until the end."""
        assert silence_seconds == watches.SILENCE_SECONDS
        self.ending.wait(SECONDS)
        yield 200, iter(())


@pytest.fixture
def watched() -> Iterator[Callable[[Server], live.Live]]:
    """Begins the watches of a page; they end with the test."""
    begun: list[Server] = []

    def begin(server: Server) -> live.Live:
        page = kit.page(kit.Time())
        begun.append(server)
        watchers.begin(server, page.store, ending=server.ending)
        return page

    yield begin
    for server in begun:
        server.ending.set()


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    turn = threading.Event()
    for _ in range(int(SECONDS * 100)):
        if holds():
            return
        turn.wait(0.01)
    pytest.fail("it never held")


def test_what_an_api_server_lists_is_on_the_page(watched: Callable[[Server], live.Live]) -> None:
    server = Server()
    page = watched(server)
    until(lambda: page.store.whole)
    until(lambda: set(page.store.news().sources.values()) == {None})
    assert server.asked == {cluster.GPUNODES, cluster.POLICIES, cluster.pods_path(None), watchers.DLJOBS}
    seen = page.store.seen(raw.TEAM, "broken")
    assert [pod.name for pod in seen.pods] == ["a"]
    assert seen.dljob is None
    assert "DLJob.status.observedGeneration" in seen.notes[0]


def test_a_watch_that_ends_by_itself_is_told_and_asks_for_a_restart(
    watched: Callable[[Server], live.Live], caplog: pytest.LogCaptureFixture
) -> None:
    page = watched(Server(RuntimeError("not foreseen")))
    until(lambda: page.store.broken)
    assert "restart the dashboard: RuntimeError('not foreseen')" in str(page.store.news().sources[store.PODS])
    assert "the watch of pods ended" in caplog.text


def test_a_server_that_does_not_answer_is_no_reason_to_end(watched: Callable[[Server], live.Live]) -> None:
    page = watched(Server(errors.TemporaryError("no answer", delay_seconds=1)))
    until(lambda: page.store.news().sources[store.PODS] == "no answer")
    assert not page.store.broken
