"""The operator on a real control plane with nothing to do: ten thousand DLJobs that are over."""

from argparse import ArgumentParser, Namespace
from typing import Final

from cotenant_e2e.benchmark.dljobs import crowd, finished, place, results, tables
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output

COMMAND = "make bench-operator-rest"
SUMMARY = "measure the operator at rest: ten thousand DLJobs that are over"
LATELY: Final = 100
"""DLJobs that have run; the others are written as if they had."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--finished", type=int, default=10_000, metavar="N", help="that are over (default: 10000)")
    parser.add_argument(
        "--nodes", type=int, default=20, metavar="N", help="simulated nodes of eight GPUs (default: 20)"
    )
    parser.add_argument(
        "--rest",
        type=float,
        default=300,
        metavar="SECONDS",
        help="to watch it (default: 300, in which every watch begins anew)",
    )
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    output.require_page(arguments, command=COMMAND)
    with place.started(arguments.directory, nodes=arguments.nodes) as where:
        crowd.measure(where, jobs=LATELY, idle_seconds=0, report=output.say)
        found = finished.measure(where, jobs=arguments.finished, idle_seconds=arguments.rest, report=output.say)
    measured = results.AtRest(nodes=arguments.nodes, lately=LATELY, finished=found)
    output.show(arguments, lines=tables.at_rest(measured), document=measured.to_object(), command=COMMAND)
    return 0
