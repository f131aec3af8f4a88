"""Starts a control plane with simulated nodes and leaves it running."""

import os
import sys
from argparse import ArgumentParser, Namespace

from cotenant_e2e import binaries, nodes, progress, startup
from cotenant_e2e.commands import arguments as shared

SUMMARY = "start Kubernetes with simulated GPU nodes"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--nodes", type=int, metavar="N", help="N nodes of four H200 each instead of the demo's six")
    parser.add_argument("--port", type=int, default=0, help="of the API server; default: a free one")


def run(arguments: Namespace) -> int:
    """Start it and say how to reach it."""
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal())
    simulated = nodes.demo() if arguments.nodes is None else nodes.uniform(arguments.nodes)
    options = startup.Options(nodes=simulated, api_server_port=arguments.port)
    cluster = startup.start(arguments.directory, programs, options, report=lambda line: print(line, file=sys.stderr))
    cluster.close()
    print(f"export KUBECONFIG={cluster.kubeconfig()}")
    return 0
