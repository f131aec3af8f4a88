"""Starts a control plane with simulated nodes, a real one if asked for, and leaves it running."""

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from cotenant_e2e import binaries, nodes, progress, startup, versions
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.node import machine, real

SUMMARY = "start Kubernetes with simulated GPU nodes"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--nodes", type=int, metavar="N", help="N nodes of four H200 each instead of the demo's six")
    parser.add_argument("--node", default="", metavar="NAME", help="a real node, as root; no simulated ones")
    parser.add_argument("--containerd", type=Path, metavar="PATH", help="of the real node; default: the pinned one")
    parser.add_argument("--port", type=int, default=0, help="of the API server; default: a free one")


def run(arguments: Namespace) -> int:
    """Start it and say how to reach it."""
    if arguments.node:
        machine.require_able()
        machine.MACHINE.require_vacancy()
    wanted = (*versions.PROGRAMS, *(versions.NODE_PROGRAMS if arguments.node else ()))
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal(), programs=wanted)
    options = startup.Options(nodes=_simulated(arguments), api_server_port=arguments.port, node=arguments.node)
    running = startup.start(arguments.directory, programs, options, report=lambda line: print(line, file=sys.stderr))
    if arguments.node:
        _add_node(running, arguments)
    running.close()
    print(f"export KUBECONFIG={running.kubeconfig()}")
    return 0


def _simulated(arguments: Namespace) -> list[dict[str, Any]]:
    if arguments.nodes is None:
        return [] if arguments.node else nodes.demo()
    return nodes.uniform(arguments.nodes)


def _add_node(running: Cluster, arguments: Namespace) -> None:
    try:
        real.create(running, containerd=arguments.containerd)
    except BaseException:
        running.stop()
        raise
