"""`cotenant extender`: serve kube-scheduler on loopback."""

import argparse
import logging
import socket
from pathlib import Path

from cotenant_api import logs, names

SUMMARY = "Serve kube-scheduler: pack pods that ask for cotenant.dev/gpu-share"
COMPONENT = True

PORT = 8888


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: the ServiceAccount of the pod")
    parser.add_argument("--port", type=int, default=PORT, help=f"on 127.0.0.1 (default {PORT})")
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve /metrics, /healthz and /readyz on this port of every address, too; default: on 127.0.0.1 alone",
    )
    parser.add_argument(
        "--metrics-token-file",
        type=Path,
        metavar="FILE",
        help="holds the bearer token that lets read metrics that name namespaces on that port; default: nobody may",
    )
    parser.add_argument(
        "--namespace",
        default=names.RELEASE_NAMESPACE,
        help=f"where the Leases of kube-scheduler and of the node agents are (default {names.RELEASE_NAMESPACE})",
    )
    parser.add_argument(
        "--assume-leader",
        action="store_true",
        help="lead without a Lease: only where there is one kube-scheduler, without leader election",
    )
    parser.add_argument(
        "--filter",
        choices=["One", "All"],
        default="One",
        help="what filter leaves of the nodes that take a pod: the One that packing chooses (default), or All, for a "
        "kube-scheduler that is configured with prioritizeVerb and weight and chooses itself",
    )
    parser.add_argument(
        "--identity",
        metavar="HOSTNAME",
        default=socket.gethostname(),
        help="host name by which kube-scheduler beside this extender holds its Lease (default: this host's)",
    )
    logs.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    from cotenant_api import exposition
    from cotenant_extender import serve, service, verbs

    logs.configure(arguments.logging_format)
    # Of the server, what went wrong alone: it would tell of each start.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    settings = service.Settings(
        namespace=arguments.namespace,
        identity=arguments.identity,
        assume_leader=arguments.assume_leader,
        leaves=verbs.Leaves(arguments.filter),
    )
    readers = exposition.Readers.by(arguments.metrics_token_file, field="--metrics-token-file")
    ports = serve.Ports(arguments.port, arguments.metrics_port, readers)
    return serve.run(settings, kubeconfig=arguments.kubeconfig, ports=ports)
