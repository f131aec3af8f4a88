"""The operator on a real control plane: a thousand DLJobs at once, and ten thousand that are over."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from cotenant_api import sections
from cotenant_e2e import binaries, installation, progress, startup
from cotenant_e2e import cluster as clusters
from cotenant_e2e.benchmark.dljobs import crowd, finished, place, results, tables
from cotenant_e2e.commands import arguments as shared

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
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this page, between its markers")


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    if arguments.write is not None:
        sections.require(arguments.write, command=COMMAND)
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal())
    clusters.down(arguments.directory)
    with startup.start(arguments.directory, programs, place.options(nodes=arguments.nodes)) as cluster:
        installation.install(cluster)
        measured = _measure(place.Place(cluster), arguments)
    lines = tables.lines(measured)
    print(json.dumps(measured.to_object()) if arguments.json else "\n".join(lines))
    if arguments.write is not None:
        sections.replace(arguments.write, lines, command=COMMAND)
    return 0


def _measure(where: place.Place, arguments: Namespace) -> results.Measurement:
    where.prepare()
    at_once = crowd.measure(where, jobs=arguments.jobs, idle_seconds=arguments.idle, report=_say)
    over = finished.measure(where, jobs=arguments.finished, idle_seconds=arguments.rest, report=_say)
    return results.Measurement(nodes=arguments.nodes, crowd=at_once, finished=over)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
