"""A listener on every address is found by IPv4 and by IPv6, and where there is no IPv6 by IPv4."""

import errno
import socket

import pytest

from cotenant_api import addresses

LOOPBACK = ("127.0.0.1", "::1")


@pytest.mark.parametrize("host", LOOPBACK)
def test_it_is_found_by_either_family(host: str) -> None:
    with addresses.bound(0) as listening:
        listening.listen()
        with socket.create_connection((host, listening.getsockname()[1]), timeout=10):
            pass


def test_without_ipv6_it_is_found_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with addresses.bound(0) as listening:
        assert listening.family is socket.AF_INET


def test_where_ipv6_is_switched_off_it_is_found_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(socket.socket):
        def bind(self, address: object) -> None:
            if self.family is socket.AF_INET6:
                raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
            super().bind(address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "socket", Refusing)
    with addresses.bound(0) as listening:
        assert listening.family is socket.AF_INET


@pytest.mark.parametrize("host", LOOPBACK)
def test_a_port_that_is_taken_on_one_address_is_taken(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as taken:
        taken.bind((host, 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            addresses.bound(taken.getsockname()[1])
