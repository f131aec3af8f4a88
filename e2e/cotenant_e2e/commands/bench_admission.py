"""What pods that ask for no share take to create, whatever of ours is missing."""

import os
from argparse import ArgumentParser, Namespace

from cotenant_e2e import binaries, progress, startup
from cotenant_e2e import cluster as clusters
from cotenant_e2e.benchmark import admission
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output

COMMAND = "make bench-admission"
SUMMARY = "measure what pods that ask for no share take to create, with all of our objects and with some missing"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--requests", type=int, default=1000, metavar="N", help="of each turn (default: 1000)")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="of each case (default: 5)")
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    output.require_page(arguments, command=COMMAND)
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal())
    clusters.down(arguments.directory)
    with startup.start(arguments.directory, programs, startup.Options(nodes=())) as cluster:
        measured = admission.measure(cluster, requests=arguments.requests, turns=arguments.turns, report=output.say)
    lines = admission.lines(measured, cores=os.cpu_count() or 1)
    output.show(arguments, lines=lines, document=measured.to_object(), command=COMMAND)
    return 0
