"""The small client of the API server, against a small HTTP server."""

import http.client
import http.server
import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from cotenant_api import errors
from cotenant_e2e import client as clients
from cotenant_e2e import waiting


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every path with a status of that number: `/404`; `/429/200` with one after the other, once each."""

    seen: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        """One answer."""
        codes = self.path.strip("/").split("/")
        code = int(codes[min(self.seen[self.path], len(codes) - 1)])
        self.seen[self.path] += 1
        body = json.dumps({"reason": "NotFound", "message": "no such pod"}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        if code == 429:
            self.send_header("Retry-After", "3")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Be quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    Handler.seen.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({}, "/api/v1/pods"),
        ({"namespace": "default"}, "/api/v1/namespaces/default/pods"),
        ({"namespace": "default", "name": "a"}, "/api/v1/namespaces/default/pods/a"),
        ({"group": "cotenant.dev", "version": "v1alpha1"}, "/apis/cotenant.dev/v1alpha1/pods"),
    ],
)
def test_paths_of_objects(arguments: dict[str, str], path: str) -> None:
    assert clients.path_of("pods", **arguments) == path


def test_only_200_is_an_answer(url: str) -> None:
    assert clients.answers(f"{url}/200")
    assert not clients.answers(f"{url}/503")


def test_nobody_listening_is_no_answer() -> None:
    assert not clients.answers("http://127.0.0.1:1/healthz")


def test_proxies_are_not_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert clients.answers(f"{url}/200")


def test_a_server_that_is_away_is_a_temporary_error() -> None:
    client = clients.Client("https://127.0.0.1:1", ssl.create_default_context())
    with pytest.raises(errors.TemporaryError, match=r"GET /api: .*refused"):
        client.get("/api")


def test_a_refusal_carries_code_reason_and_message() -> None:
    error = clients.APIError("GET", "/p", 409, {"reason": "Conflict", "message": "already bound"})
    assert (error.code, error.reason, error.message) == (409, "Conflict", "already bound")
    assert str(error) == "GET /p: 409 Conflict: already bound"


def busy(url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[clients.Client, list[float]]:
    """Return a client of that server, by HTTP, and how long it has waited between its requests."""
    paused: list[float] = []
    monkeypatch.setattr(http.client, "HTTPSConnection", lambda netloc, **_: http.client.HTTPConnection(netloc))
    clock = waiting.Clock(pause=paused.append)
    return clients.Client(url, ssl.create_default_context(), clock=clock), paused


def test_a_read_that_is_turned_away_is_asked_again_when_the_server_says(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, paused = busy(url, monkeypatch)
    assert client.get("/429/200")["message"] == "no such pod"
    assert paused == [3]


def test_a_read_that_is_turned_away_again_and_again_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, paused = busy(url, monkeypatch)
    with pytest.raises(clients.APIError, match="429"):
        client.get("/429")
    assert paused == [3] * 9


def test_a_read_that_is_turned_away_for_good_is_not_asked_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, paused = busy(url, monkeypatch)
    with pytest.raises(clients.APIError, match="403"):
        client.get("/403/200")
    assert not paused
