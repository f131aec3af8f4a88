"""The dashboard over HTTP, by a real server: what it serves, to whom, and what it refuses."""

import re
from collections.abc import Iterator

import httpx
import pytest

from cli import kit as raw
from cotenant_api import errors, names
from cotenant_dashboard.watching.reviews import Verdict
from cotenant_dashboard.web import app, guards
from cotenant_e2e.dashboard import serving
from dashboard import kit

PATHS = ("", "static/main.js", "static/page.css", "api/page", "api/jobs/team/a", "metrics", "healthz", "readyz")
WAITS = "2 GPUs hold 3 jobs, 1 lacks 3.1 GiB; 4th in the queue"


@pytest.fixture(scope="module")
def dashboard() -> Iterator[serving.Dashboard]:
    """One that shows a job on a GPU, and one that waits."""
    with serving.dashboard(settings=app.Settings(hosts=["gpus.example.com"])) as made:
        waits = raw.pod("waits", conditions=[raw.packed("InsufficientShare", WAITS)], gates=[names.PACKING_GATE])
        kit.tell(
            made.live.store,
            gpunodes=[raw.gpunode(raw.gpu(tenants=[raw.tenant("a")], utilizationPercent=30))],
            pods=[raw.pod("a", on="GPU-0"), waits],
            policies=[raw.policy()],
        )
        yield made


@pytest.fixture(scope="module")
def ask(dashboard: serving.Dashboard) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=dashboard.url) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_every_page_is_served_with_a_strict_policy(ask: httpx.Client, path: str) -> None:
    answer = ask.get(path)
    assert answer.status_code == 200
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", PATHS)
def test_head_is_answered_as_get_without_a_body(ask: httpx.Client, path: str) -> None:
    answer = ask.head(path)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["", "api/page", "api/events"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_but_get_and_head_is_taken(ask: httpx.Client, path: str, method: str) -> None:
    answer = ask.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8380",
        "127.0.0.1:1",
        "[::1]:8380",
        "10.1.2.3",
        "GPUs.example.com",
        "gpus.example.com:443",
    ],
)
def test_it_answers_by_address_localhost_and_allowed_names(ask: httpx.Client, host: str) -> None:
    assert ask.get("api/page", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1.evil.example", "localhost.evil.example", "", "a]b"])
@pytest.mark.parametrize("path", ["", "api/page", "healthz"])
def test_a_name_that_somebody_made_point_here_is_refused(ask: httpx.Client, host: str, path: str) -> None:
    answer = ask.get(path, headers={"Host": host})
    assert answer.status_code in {400, 421}
    assert "team" not in answer.text


def test_an_address_in_brackets_loses_them_and_its_port() -> None:
    assert guards.host_of("[fe80::1]:80") == "fe80::1"


def test_the_page_is_one_document(ask: httpx.Client) -> None:
    document = ask.get("api/page").json()
    assert document["v"] == 1
    assert {"node/n1", "waiting/team/waits", "cluster", "policy", "accuracy", "namespaces"} <= set(document["parts"])


def test_a_job_is_explained_with_the_words_of_why(ask: httpx.Client) -> None:
    found = ask.get("api/jobs/team/waits").json()
    assert (found["kind"], found["reason"], found["message"], found["queuePosition"]) == (
        "Pod",
        "InsufficientShare",
        WAITS,
        4,
    )
    facts = {fact["title"]: fact for fact in found["facts"]}
    assert facts["Why"] == {"title": "Why", "words": f"InsufficientShare: {WAITS}", "tone": "waiting"}
    assert facts["Asks for"]["words"] == "55 hundredths of a GPU; any GPU model"


@pytest.mark.parametrize("path", ["api/jobs/team/none", "api/jobs/nobody/a", "api/jobs/team/%3Cscript%3E"])
def test_a_job_that_is_not_there_is_told_with_the_remedy(ask: httpx.Client, path: str) -> None:
    answer = ask.get(path)
    assert answer.status_code == 404
    assert "kubectl get dljobs,pods" in answer.json()["problem"]


@pytest.mark.parametrize(
    "path", ["static/../app.py", "static/%2e%2e/app.py", "static/none.js", "app.py", "api/jobs/team", "static/"]
)
def test_nothing_else_of_the_disk_is_served(ask: httpx.Client, path: str) -> None:
    assert ask.get(path).status_code == 404


def test_a_file_that_the_browser_has_is_not_sent_again(ask: httpx.Client) -> None:
    first = ask.get("static/main.js")
    assert first.headers["cache-control"] == "no-cache"
    assert ask.get("static/main.js", headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    assert ask.get("static/main.js", headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_page_asks_for_nothing_but_its_own_files(ask: httpx.Client) -> None:
    index = ask.get("").text
    named = re.findall(r'(?:src|href)="([^"#]+)"', index)
    assert len(named) >= 4
    for path in named:
        assert path.startswith("static/"), "relative, so that it works behind a path of a proxy"
        assert ask.get(path).status_code == 200
    for path in ("static/main.js", "static/base.css", "static/page.css"):
        assert not re.search(r"https?://|@import|url\(", ask.get(path).text)
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", index), "the policy forbids what is inline"


def test_prometheus_reads_what_namespaces_used(ask: httpx.Client) -> None:
    text = ask.get("metrics").text
    assert "# TYPE cotenant_used_share_seconds_total counter" in text
    assert "# TYPE cotenant_attributed_share_seconds_total counter" in text


def test_it_is_not_ready_before_the_cluster_was_read() -> None:
    with serving.dashboard() as made, httpx.Client(base_url=made.url) as client:
        assert (client.get("healthz").status_code, client.get("readyz").status_code) == (200, 503)
        kit.tell(made.live.store)
        assert client.get("readyz").status_code == 200


RIGHTS = ("get gpunodes.cotenant.dev", "get packingpolicies.cotenant.dev", "list pods", "list dljobs.cotenant.dev")


def verdict(token: str, _source: str) -> Verdict:
    """What an API server would say."""
    if token == "silence":
        raise errors.TemporaryError("no answer", delay_seconds=1)
    verdicts = {"good": Verdict.ALLOWED, "poor": Verdict.FORBIDDEN, "many": Verdict.LIMITED}
    return verdicts.get(token, Verdict.UNKNOWN)


@pytest.fixture(scope="module")
def guarded() -> Iterator[httpx.Client]:
    """Of a dashboard that asks for a token."""
    settings = app.Settings(verdict=verdict)
    with serving.dashboard(settings=settings) as made, httpx.Client(base_url=made.url) as client:
        kit.tell(made.live.store, pods=[raw.pod("a", on="GPU-0")])
        yield client


@pytest.mark.parametrize("path", ["api/page", "api/events", "api/jobs/team/a", "metrics"])
@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Bearer bad", 401),
        ("Basic good", 401),
        ("good", 401),
        ("Bearer poor", 403),
        ("Bearer many", 429),
        ("Bearer silence", 503),
    ],
)
def test_who_may_not_look_sees_nothing(guarded: httpx.Client, path: str, header: str | None, status: int) -> None:
    answer = guarded.get(path, headers={} if header is None else {"Authorization": header})
    assert answer.status_code == status
    assert set(answer.json()) == {"problem"}


@pytest.mark.parametrize("right", RIGHTS)
def test_an_account_that_may_not_look_is_told_all_rights_that_it_needs(guarded: httpx.Client, right: str) -> None:
    said = guarded.get("api/page", headers={"Authorization": "Bearer poor"}).json()["problem"]
    assert right in said
    assert "cotenant-viewer" in said


def test_who_may_look_sees_the_page(guarded: httpx.Client) -> None:
    assert guarded.get("api/page", headers={"Authorization": "Bearer good"}).status_code == 200
    assert guarded.get("api/jobs/team/a", headers={"Authorization": "bearer good"}).status_code == 200


@pytest.mark.parametrize("path", ["", "static/main.js", "healthz"])
def test_what_tells_nothing_of_the_cluster_is_served_to_all(guarded: httpx.Client, path: str) -> None:
    assert guarded.get(path).status_code == 200
