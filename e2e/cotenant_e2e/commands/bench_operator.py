"""The operator on a real control plane: a thousand DLJobs at once."""

from argparse import ArgumentParser, Namespace

from cotenant_e2e.benchmark.dljobs import crowd, place, results, tables
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output

COMMAND = "make bench-operator"
SUMMARY = "measure the operator: a thousand DLJobs at once"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--jobs", type=int, default=1000, metavar="N", help="DLJobs at once (default: 1000)")
    parser.add_argument(
        "--nodes", type=int, default=100, metavar="N", help="simulated nodes of eight GPUs (default: 100)"
    )
    parser.add_argument("--idle", type=float, default=30, metavar="SECONDS", help="while all run (default: 30)")
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    output.require_page(arguments, command=COMMAND)
    with place.started(arguments.directory, nodes=arguments.nodes) as where:
        found = crowd.measure(where, jobs=arguments.jobs, idle_seconds=arguments.idle, report=output.say)
    measured = results.AtOnce(nodes=arguments.nodes, crowd=found)
    output.show(arguments, lines=tables.at_once(measured), document=measured.to_object(), command=COMMAND)
    return 0
