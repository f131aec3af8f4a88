"""`cotenant dashboard`: serve a page that shows the cluster live. It reads, and changes nothing."""

import argparse
import ipaddress
import secrets
import socket
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import cotenant_api
from cotenant_api import errors, logs
from cotenant_dashboard.watching import rights

SUMMARY = "serve a live page of GPUs, tenants, queue and predictions; it reads the cluster and changes nothing"
EXAMPLES = """\
examples: cotenant dashboard
          cotenant dashboard --context training --port 0
          cotenant dashboard --address 10.0.0.7 --authenticate --tls-certificate tls.crt --tls-key tls.key
"""

ADDRESS: Final = "127.0.0.1"
PORT: Final = 8380


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--address",
        default=ADDRESS,
        help="to listen on (::: all, of IPv4, too); beside loopback, --authenticate is asked for (%(default)s)",
    )
    parser.add_argument("--port", type=int, default=PORT, help="0: any that is free (default: %(default)s)")
    parser.add_argument(
        "--authenticate",
        action="store_true",
        help=f"ask for a bearer token of the cluster, whose account has the rights to {rights.WORDS}",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name, beside localhost and addresses, by which browsers may ask for it; may be given again",
    )
    parser.add_argument("--tls-certificate", type=Path, metavar="FILE", help="PEM; with --tls-key, it speaks HTTPS")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="PEM, of the certificate")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="take tokens over plain HTTP from other machines, too: behind a proxy that ends TLS",
    )
    parser.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="CIDR",
        help="addresses of a proxy whose X-Forwarded-For says whose tokens are counted; may be given again",
    )
    parser.add_argument("--context", metavar="C", help="of the kubeconfig; default: its current one")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="default: as kubectl chooses it; where there is none, in a pod, its ServiceAccount",
    )
    logs.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    require_private(arguments.address, authenticate=arguments.authenticate)
    if (arguments.tls_certificate is None) != (arguments.tls_key is None):
        raise errors.InvalidInputError(
            "--tls-key", arguments.tls_key, "goes with --tls-certificate: give both, or none"
        )

    import asyncio

    from cotenant_cli.reading import kube
    from cotenant_dashboard.watching import live, reviews, watchers
    from cotenant_dashboard.web import app, serving, sources

    logs.configure(arguments.logging_format)
    tls = arguments.tls_certificate and serving.tls(arguments.tls_certificate, arguments.tls_key)
    door = serving.Door(address=arguments.address, port=arguments.port, tls=tls)
    connection = kube.Connection(arguments.kubeconfig, arguments.context)
    asking = reviews.Reviews(connection.client, clock=time.monotonic) if arguments.authenticate else None
    settings = app.Settings(
        hosts=arguments.allow_host,
        verdict=None if asking is None else asking.verdict,
        insecure=arguments.insecure,
        proxies=sources.networks(arguments.trusted_proxy, field="--trusted-proxy"),
    )
    clock = live.Clock(now=lambda: datetime.now(UTC), seconds=time.monotonic)

    async def served(listening: socket.socket) -> None:
        page = live.Live(release=cotenant_api.__version__, epoch=secrets.token_hex(8), clock=clock)
        ending = threading.Event()
        watchers.begin(connection, page.store, ending=ending)
        print(f"dashboard: {door.url(listening)}", flush=True)
        try:
            await serving.serve(page, app.create(page, settings), door=door, listening=listening)
        finally:
            ending.set()

    with door.listening() as listening:
        asyncio.run(served(listening))
    return 0


def require_private(address: str, *, authenticate: bool) -> None:
    """Who is not on this machine has to show who they are.

    Raises:
        InvalidInputError: the address is none, or open to others without authentication.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError as error:
        raise errors.InvalidInputError("--address", address, "must be an address in digits: 127.0.0.1, ::1") from error
    if not parsed.is_loopback and not authenticate:
        remedy = "others can reach it there: add --authenticate, or listen on 127.0.0.1 and use kubectl port-forward"
        raise errors.InvalidInputError("--address", address, remedy)
