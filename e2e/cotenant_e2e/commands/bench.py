"""Ratios of speed against plain kube-scheduler, on this machine."""

import os
import sys
from argparse import ArgumentParser, Namespace

from cotenant_e2e import benchmark, binaries, installation, nodes, progress, startup
from cotenant_e2e import cluster as clusters
from cotenant_e2e.commands import arguments as shared

SUMMARY = "measure pods per second through Cotenant against plain kube-scheduler"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--nodes", type=int, default=50, metavar="N", help="simulated nodes of four GPUs (default: 50)")
    parser.add_argument("--pods", type=int, default=400, metavar="N", help="pods of each round (default: 400)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="rounds (default: 3)")


def run(arguments: Namespace) -> int:
    """Print the ratio, with its conditions."""
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal())
    clusters.down(arguments.directory)
    options = startup.Options(nodes=nodes.uniform(arguments.nodes))
    with startup.start(arguments.directory, programs, options) as cluster:
        installation.install(cluster)
        found = benchmark.rounds(
            cluster.client,
            pods=arguments.pods,
            repeats=arguments.repeats,
            report=lambda line: print(line, file=sys.stderr, flush=True),
        )
    print(
        f"ratio {benchmark.median_ratio(found):.2f}: median of {arguments.repeats} rounds of {arguments.pods} pods "
        f"created on the fly, on {arguments.nodes} simulated nodes with {4 * arguments.nodes} simulated GPUs; "
        f"{os.cpu_count()} cores for everything"
    )
    return 0
