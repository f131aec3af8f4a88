"""The operator on a real control plane: a thousand DLJobs at once, and ten thousand that are over."""

import os
from argparse import ArgumentParser, Namespace

from cotenant_e2e import binaries, installation, progress, startup
from cotenant_e2e import cluster as clusters
from cotenant_e2e.benchmark.dljobs import crowd, finished, place, results, tables
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output

COMMAND = "make bench-operator"
SUMMARY = "measure the operator: a thousand DLJobs at once, ten thousand that are over"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--jobs", type=int, default=1000, metavar="N", help="DLJobs at once (default: 1000)")
    parser.add_argument("--finished", type=int, default=10_000, metavar="N", help="that are over (default: 10000)")
    parser.add_argument(
        "--nodes", type=int, default=100, metavar="N", help="simulated nodes of eight GPUs (default: 100)"
    )
    parser.add_argument(
        "--idle", type=float, default=60, metavar="SECONDS", help="to watch while all run (default: 60)"
    )
    parser.add_argument(
        "--rest",
        type=float,
        default=600,
        metavar="SECONDS",
        help="to watch when all are over (default: 600, in which every watch begins anew twice)",
    )
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    output.require_page(arguments, command=COMMAND)
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal())
    clusters.down(arguments.directory)
    with startup.start(arguments.directory, programs, place.options(nodes=arguments.nodes)) as cluster:
        installation.install(cluster)
        measured = _measure(place.Place(cluster), arguments)
    output.show(arguments, lines=tables.lines(measured), document=measured.to_object(), command=COMMAND)
    return 0


def _measure(where: place.Place, arguments: Namespace) -> results.Measurement:
    where.prepare()
    at_once = crowd.measure(where, jobs=arguments.jobs, idle_seconds=arguments.idle, report=output.say)
    over = finished.measure(where, jobs=arguments.finished, idle_seconds=arguments.rest, report=output.say)
    return results.Measurement(nodes=arguments.nodes, crowd=at_once, finished=over)
