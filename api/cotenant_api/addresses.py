"""The socket of a listener, bound: by default on every address of the machine, IPv4 and IPv6. Stdlib alone."""

import errno
import socket
from typing import Final

EVERY: Final = "::"
"""Every address, of IPv4 as well."""
_EVERY_OF_IPV4: Final = "0.0.0.0"  # noqa: S104 - kubelet's probes and Prometheus come from elsewhere


def bound(port: int, *, host: str = EVERY) -> socket.socket:
    """Return a socket that is bound to a port of an address.

    Args:
        port: 0: one that is free.
        host: an address in digits; `EVERY`: all, of IPv4 alone where there is no IPv6.

    Raises:
        OSError: the port is taken, or may not be had.
        OverflowError: it is none.
    """
    if host != EVERY:
        return _bound(host, port)
    if socket.has_dualstack_ipv6():
        try:
            return _bound(EVERY, port)
        except OSError as error:
            # Any other refusal may be of a kernel in which IPv6 is switched off.
            if error.errno == errno.EADDRINUSE:
                raise
    return _bound(_EVERY_OF_IPV4, port)


def _bound(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == EVERY:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made
