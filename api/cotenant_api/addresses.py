"""The socket of a listener that is asked from elsewhere: every address of the machine, IPv4 and IPv6. Stdlib alone."""

import errno
import socket
from typing import Final

EVERY: Final = "::"
"""Every address, of IPv4 as well."""
_EVERY_OF_IPV4: Final = "0.0.0.0"  # noqa: S104 - kubelet's probes and Prometheus come from elsewhere


def bound(port: int) -> socket.socket:
    """Return a socket that is bound to a port of every address; of IPv4 alone where there is no IPv6.

    Args:
        port: 0: one that is free.

    Raises:
        OSError: the port is taken, or may not be had.
        OverflowError: it is none.
    """
    if socket.has_dualstack_ipv6():
        try:
            return _bound(socket.AF_INET6, EVERY, port)
        except OSError as error:
            # Any other refusal may be of a kernel in which IPv6 is switched off.
            if error.errno == errno.EADDRINUSE:
                raise
    return _bound(socket.AF_INET, _EVERY_OF_IPV4, port)


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made
