"""Whose request it is, by the connection and by what proxies say: nobody gets out of his bucket by a header."""

import httpx
import pytest

from cotenant_api import errors
from cotenant_dashboard.watching.reviews import Verdict
from cotenant_dashboard.web import app, sources
from dashboard import kit

PROXIES = sources.networks(["10.0.0.0/24", "fd00::1"], field="--trusted-proxy")


@pytest.mark.parametrize(
    ("peer", "forwarded", "source"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),
        ("10.0.0.7", [], "10.0.0.7"),
        ("10.0.0.7", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.7", ["198.51.100.1"], "198.51.100.1"),
        ("fd00::1", ["2001:db8::1"], "2001:db8::/64"),
        ("2001:db8:0:1::7", [], "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::9", [], "2001:db8:0:1::/64"),
        ("2001:db8:0:2::7", [], "2001:db8:0:2::/64"),
        ("fe80::7%eth0", [], "fe80::/64"),
        ("10.0.0.7", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.7", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.7", ["203.0.113.9, 198.51.100.1, 10.0.0.8"], "198.51.100.1"),
        ("10.0.0.7", ["198.51.100.1, unknown"], "10.0.0.7"),
        ("10.0.0.7", ["10.0.0.9"], "10.0.0.9"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_header_is_believed_as_far_as_proxies_wrote_it(peer: str, forwarded: list[str], source: str) -> None:
    assert sources.source_of(peer, forwarded, PROXIES) == source


def test_without_proxies_no_header_is_believed() -> None:
    assert sources.source_of("10.0.0.7", ["198.51.100.1"], ()) == "10.0.0.7"


def test_network_that_is_none_is_refused_with_the_remedy() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"--trusted-proxy: 'ingress': must be an address or a network"):
        sources.networks(["ingress"], field="--trusted-proxy")


@pytest.mark.parametrize(("proxies", "source"), [((), "10.0.0.7"), (PROXIES, "198.51.100.1")])
async def test_tokens_are_counted_for_whom_they_came_from(proxies: tuple[sources.Network, ...], source: str) -> None:
    asked: list[str] = []

    def verdict(_token: str, came_from: str) -> Verdict:
        asked.append(came_from)
        return Verdict.ALLOWED

    settings = app.Settings(verdict=verdict, insecure=True, proxies=proxies)
    transport = httpx.ASGITransport(app.create(kit.page(kit.Time()), settings), client=("10.0.0.7", 1))
    headers = {"Authorization": "Bearer of-ann", "X-Forwarded-For": "203.0.113.9, 198.51.100.1"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        await client.head("/metrics", headers=headers)
    assert asked == [source]


async def test_no_header_makes_another_machine_this_one() -> None:
    settings = app.Settings(verdict=lambda *_: Verdict.ALLOWED, proxies=PROXIES)
    transport = httpx.ASGITransport(app.create(kit.page(kit.Time()), settings), client=("10.0.0.7", 1))
    headers = {"Authorization": "Bearer of-ann", "X-Forwarded-For": "127.0.0.1"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.head("/metrics", headers=headers)).status_code == 403
