"""Who may look, as an API server says: a small server that plays one."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_dashboard.watching import rates, reviews
from cotenant_dashboard.watching.reviews import Verdict
from kubernetes import client

ALL = {
    ("get", "cotenant.dev", "gpunodes"),
    ("list", "", "pods"),
    ("list", "cotenant.dev", "dljobs"),
    ("get", "cotenant.dev", "packingpolicies"),
}
USER = {"username": "ann", "uid": "7", "groups": ["admins"], "extra": {"scopes": ["all"]}}


class Server:
    """Knows the token `good`, of ann."""

    def __init__(self) -> None:
        self.rights, self.status = set(ALL), 201
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(body["spec"])
                answer = json.dumps(body | {"status": outer.said(body["spec"])}).encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002 -- the base class names it so
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def said(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The status."""
        if "token" in spec:
            if spec["token"].startswith("other"):
                return {"authenticated": True, "user": USER | {"username": "bob"}}
            return {"authenticated": True, "user": USER} if spec["token"] == "good" else {"error": "unknown"}
        wanted = spec["resourceAttributes"]
        return {
            "allowed": spec["user"] == "ann"
            and (wanted["verb"], wanted.get("group", ""), wanted["resource"]) in self.rights
        }


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def clock() -> list[float]:
    return [1000.0]


@pytest.fixture
def verdict_of(server: Server, clock: list[float]) -> Iterator[Callable[[str, str], Verdict]]:
    host = f"http://127.0.0.1:{server.http.server_address[1]}"
    configuration = client.Configuration(host=host, retries=False)
    with client.ApiClient(configuration) as api:
        yield reviews.Reviews(api, clock=lambda: clock[0]).verdict


@pytest.fixture
def verdict(verdict_of: Callable[[str, str], Verdict]) -> Callable[[str], Verdict]:
    """Of tokens that all come from one address."""
    return lambda token: verdict_of(token, "10.0.0.1")


def test_who_has_the_rights_may_look(server: Server, verdict: Callable[[str], Verdict]) -> None:
    assert verdict("good") is Verdict.ALLOWED
    token, *rights = server.asked
    assert token["token"] == "good"
    for asked in rights:
        assert (asked["user"], asked["uid"], asked["groups"], asked["extra"]) == (
            "ann",
            "7",
            ["admins"],
            {"scopes": ["all"]},
        )


@pytest.mark.parametrize("missing", sorted(ALL))
def test_who_lacks_a_right_may_not(
    server: Server, verdict: Callable[[str], Verdict], missing: tuple[str, str, str]
) -> None:
    server.rights.remove(missing)
    assert verdict("good") is Verdict.FORBIDDEN


@pytest.mark.parametrize("token", ["bad", ""])
def test_a_token_that_is_none_may_not(verdict: Callable[[str], Verdict], token: str) -> None:
    assert verdict(token) is Verdict.UNKNOWN


@pytest.mark.parametrize("token", ["x" * (reviews.MAX_TOKEN_BYTES + 1), "gööd"])
def test_what_can_be_no_token_is_not_asked_about(server: Server, verdict: Callable[[str], Verdict], token: str) -> None:
    assert verdict(token) is Verdict.UNKNOWN
    assert server.asked == []


def test_a_right_that_is_taken_away_ends_within_a_minute(
    server: Server, verdict: Callable[[str], Verdict], clock: list[float]
) -> None:
    assert verdict("good") is Verdict.ALLOWED
    server.rights.clear()
    assert verdict("good") is Verdict.ALLOWED
    clock[0] += reviews.KNOWN_SECONDS
    assert verdict("good") is Verdict.FORBIDDEN


def test_without_an_answer_nobody_may(server: Server, verdict: Callable[[str], Verdict]) -> None:
    server.status = 500
    with pytest.raises(errors.TemporaryError, match="no answer about a token"):
        verdict("good")
    server.status = 201
    assert verdict("good") is Verdict.ALLOWED


def reviewed(server: Server) -> int:
    """For how many tokens the API server was asked."""
    return sum("token" in spec for spec in server.asked)


def test_a_flood_of_tokens_asks_for_few(
    server: Server, verdict_of: Callable[[str, str], Verdict], clock: list[float]
) -> None:
    said = [verdict_of(f"made-up-{number}", "10.0.0.9") for number in range(500)]
    assert reviewed(server) == reviews.SOURCE_RATE.burst
    assert set(said[reviews.SOURCE_RATE.burst :]) == {Verdict.LIMITED}
    assert verdict_of("good", "10.0.0.1") is Verdict.ALLOWED
    clock[0] += 1 / reviews.SOURCE_RATE.per_second
    assert [verdict_of(f"later-{number}", "10.0.0.9") for number in range(2)] == [Verdict.UNKNOWN, Verdict.LIMITED]


def test_a_flood_from_many_addresses_asks_for_few_and_keeps_nobody_out_who_was_let_in(
    server: Server, verdict_of: Callable[[str, str], Verdict], clock: list[float]
) -> None:
    assert verdict_of("good", "10.0.0.1") is Verdict.ALLOWED
    for number in range(reviews.KNOWN_LIMIT + 100):
        verdict_of(f"made-up-{number}", f"10.{number // 250}.1.{number % 250}")
    assert reviewed(server) == reviews.WHOLE_RATE.burst
    assert verdict_of("good", "10.0.0.1") is Verdict.ALLOWED
    clock[0] += reviews.KNOWN_SECONDS
    for number in range(200):
        verdict_of(f"again-{number}", f"10.{number}.1.1")
    asked = reviewed(server)
    assert verdict_of("good", "10.0.0.1") is Verdict.ALLOWED
    assert reviewed(server) == asked + 1


def test_a_flood_of_tokens_of_the_cluster_that_may_not_look_pushes_out_none_that_may(
    server: Server, verdict_of: Callable[[str, str], Verdict], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may edit a namespace has as many tokens as he likes."""
    monkeypatch.setattr(reviews, "KNOWN_LIMIT", 20)
    assert verdict_of("good", "10.0.0.1") is Verdict.ALLOWED
    said = [verdict_of(f"other-{number}", f"10.1.{number}.1") for number in range(40)]
    assert set(said) == {Verdict.FORBIDDEN}
    clock[0] += reviews.KNOWN_SECONDS
    for number in range(100):
        verdict_of(f"other-again-{number}", f"10.2.{number}.1")
    assert verdict_of("good", "10.0.0.1") is Verdict.ALLOWED


def test_a_token_that_is_none_is_asked_about_once_a_minute(
    server: Server, verdict: Callable[[str], Verdict], clock: list[float]
) -> None:
    assert [verdict("bad") for _ in range(50)] == [Verdict.UNKNOWN] * 50
    assert reviewed(server) == 1
    clock[0] += reviews.KNOWN_SECONDS
    assert verdict("bad") is Verdict.UNKNOWN
    assert reviewed(server) == 2


def test_sources_that_are_remembered_are_bounded() -> None:
    buckets = rates.Buckets(rates.Rate(burst=1, per_second=1), sources=3)
    assert [buckets.take(source, 0.0) for source in "abca"] == [True, True, True, False]
    assert buckets.take("d", 0.0)
    assert len(buckets) == 3
