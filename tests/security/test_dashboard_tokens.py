"""Somebody on the network between a browser and the dashboard: no token is taken where they could read it."""

import time
from datetime import UTC, datetime

import httpx
import pytest

from cotenant_dashboard.watching import live
from cotenant_dashboard.watching.reviews import Verdict
from cotenant_dashboard.web import app
from cotenant_e2e.dashboard import serving

PATHS = pytest.mark.parametrize("path", ["/api/page", "/api/jobs/team/a", "/metrics", "/api/events"])
OTHERS = "10.1.2.3"


class Asked:
    """What an API server would say; it remembers the tokens that it saw."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def verdict(self, token: str, _source: str) -> Verdict:
        """Allowed."""
        self.tokens.append(token)
        return Verdict.ALLOWED


async def ask(path: str, *, url: str, source: str, insecure: bool = False) -> tuple[httpx.Response, Asked]:
    """What is answered to a HEAD with a token."""
    asked = Asked()
    clock = live.Clock(now=lambda: datetime.now(UTC), seconds=time.monotonic)
    page = live.Live(release="0", epoch="0", clock=clock)
    application = app.create(page, app.Settings(verdict=asked.verdict, insecure=insecure))
    transport = httpx.ASGITransport(application, client=(source, 1))
    async with httpx.AsyncClient(transport=transport, base_url=url) as client:
        return await client.head(path, headers={"Authorization": "Bearer of-ann"}), asked


@PATHS
@pytest.mark.parametrize("source", [OTHERS, "fe80::1", "", "::ffff:10.1.2.3"])
async def test_a_token_over_plain_http_from_another_machine_is_refused_unread(path: str, source: str) -> None:
    answer, asked = await ask(path, url="http://10.9.9.9:8380", source=source)
    assert (answer.status_code, asked.tokens) == (403, [])


@PATHS
def test_headers_do_not_say_where_a_request_came_from(path: str) -> None:
    asked = Asked()
    with serving.dashboard(settings=app.Settings(verdict=asked.verdict)) as made:
        headers = {"X-Forwarded-For": OTHERS, "Authorization": "Bearer of-ann"}
        # It comes from this machine itself. Were the header believed, it would come from another, and be refused.
        assert httpx.head(f"{made.url}{path[1:]}", headers=headers).status_code != 403


@pytest.mark.parametrize(
    ("url", "source", "insecure"),
    [
        ("https://10.9.9.9:8380", OTHERS, False),
        ("http://127.0.0.1:8380", "127.0.0.1", False),
        ("http://localhost:8380", "::1", False),
        ("http://10.9.9.9:8380", OTHERS, True),
    ],
)
async def test_a_token_is_taken_over_https_on_this_machine_and_where_somebody_said_so(
    url: str, source: str, insecure: bool
) -> None:
    answer, asked = await ask("/metrics", url=url, source=source, insecure=insecure)
    assert (answer.status_code, asked.tokens) == (200, ["of-ann"])


async def test_probes_need_neither_https_nor_a_token() -> None:
    answer, _ = await ask("/healthz", url="http://10.9.9.9:8380", source=OTHERS)
    assert answer.status_code == 200
