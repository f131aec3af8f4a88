"""The small client of the API server, against a small HTTP server."""

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_e2e import client as clients


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every path with a status of that number: `/404`."""

    def do_GET(self) -> None:
        """One answer."""
        code = int(self.path.strip("/"))
        body = json.dumps({"reason": "NotFound", "message": "no such pod"}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Be quiet."""


@pytest.fixture
def url() -> Iterator[str]:
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
