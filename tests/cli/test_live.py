"""`cotenant top --watch`: what watches keep is shown; where they are refused it is listed."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cli import kit
from cotenant_api import errors
from cotenant_cli.commands import top
from cotenant_cli.reading import cluster, live, watches


class Source:
    """An API server with one list for each path, where nothing changes."""

    def __init__(self, *, pods: list[Any], gpunodes: list[Any]) -> None:
        self._lists = {cluster.pods_path(None): pods, cluster.GPUNODES: gpunodes}
        self.ended = threading.Event()

    def get(self, path: str, _: watches.Query, /) -> tuple[int, Mapping[str, Any]]:
        """The list."""
        return 200, {"metadata": {"resourceVersion": "1"}, "items": self._lists[path]}

    @contextlib.contextmanager
    def lines(self, *_: Any, **__: Any) -> Iterator[tuple[int, Iterator[bytes]]]:
        """No events, until the test ends."""
        self.ended.wait()
        yield 200, iter([])


class Told(live.Kept[str]):
    """One that has been told a list."""

    def __init__(self) -> None:
        super().__init__()
        self.listed({"b/x": "2", "a/x": "1"})


def test_what_is_told_is_kept_in_order() -> None:
    kept = Told()
    assert kept.now() == ("1", "2")
    kept.changed("c/x", "3")
    kept.gone("a/x")
    kept.gone("nobody")
    assert kept.now() == ("2", "3")


def test_what_may_be_old_is_not_shown_as_new() -> None:
    kept = Told()
    kept.failed(errors.TemporaryError("no answer", delay_seconds=1))
    with pytest.raises(errors.TemporaryError, match="no answer"):
        kept.now()
    kept.failed(None)
    assert kept.now() == ("1", "2")


def test_nothing_told_is_no_empty_cluster() -> None:
    with pytest.raises(errors.TemporaryError, match="no list within"):
        live.Kept[str]().now(seconds=0)


def test_a_live_cluster_is_the_listed_one() -> None:
    pods, gpunodes = [kit.pod("b", on="GPU-0"), kit.pod("a")], [kit.gpunode(kit.gpu())]
    source = Source(pods=pods, gpunodes=gpunodes)
    kept = live.Live(source, namespace=None)
    assert kept.seen() == cluster.of_gpus(kit.lists(pods=pods, gpunodes=gpunodes), namespace=None)
    kept.close()
    source.ended.set()


def test_where_watching_is_refused_each_picture_is_listed() -> None:
    listed, closed = cluster.Seen(pods=(), nodes=(), notes=("listed",)), []

    def refused() -> cluster.Seen:
        raise errors.PermanentError("403")

    seen = top.following(refused, lambda: listed, close=lambda: closed.append(True))
    assert [seen(), seen()] == [listed, listed]
    assert closed == [True]


def test_a_server_that_does_not_answer_ends_no_watch() -> None:
    def silent() -> cluster.Seen:
        raise errors.TemporaryError("no answer", delay_seconds=1)

    seen = top.following(silent, lambda: cluster.Seen(pods=(), nodes=()), close=lambda: None)
    with pytest.raises(errors.TemporaryError):
        seen()
