"""Where a request came from: the connection says it, and a header only where its sender is known for it. Pure."""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from cotenant_api import errors

HEADER: Final = "x-forwarded-for"
OF_ONE: Final = 64
"""Bits of an IPv6 address that tell one holder from another: he has all addresses that begin with them."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def networks(texts: Iterable[str], *, field: str) -> tuple[Network, ...]:
    """Addresses of proxies, as somebody wrote them.

    Raises:
        InvalidInputError: one is no network.
    """
    return tuple(_network(text, field) for text in texts)


def source_of(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Return the address that a request came from; of IPv6, the network of which one holder has all addresses.

    Each proxy adds whom it was asked by at the end of the header: it is read from there, as far as those who wrote it
    are proxies that are known. What stands before may be anybody's invention.

    Args:
        peer: the other end of the connection.
        forwarded: the values of `HEADER`, in the order in which they came.
        proxies: who may say where a request came from.
    """
    found = _address(peer)
    told = [one.strip() for value in forwarded for one in value.split(",")]
    while found is not None and told and any(found in network for network in proxies):
        before = _address(told.pop())
        if before is None:
            break
        found = before
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(found), OF_ONE), strict=False))
    return peer if found is None else str(found)


def _network(text: str, field: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise errors.InvalidInputError(field, text, "must be an address or a network: 10.0.0.7, 10.0.0.0/24") from error


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
