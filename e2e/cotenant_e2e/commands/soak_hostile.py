"""A hostile namespace beside an honest one on a real control plane."""

import os
from argparse import ArgumentParser, Namespace

from cotenant_e2e import binaries, installation, progress, startup
from cotenant_e2e import cluster as clusters
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output
from cotenant_e2e.hostile import measured, report, soak, verdict

COMMAND = "make soak-hostile"
SUMMARY = "attack our programs with a tenant's token, and measure what they weigh and how long honest jobs wait"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--minutes", type=float, default=60, metavar="N", help="of attacks (default: 60)")
    parser.add_argument("--rate", type=float, default=5, metavar="N", help="attacks a second, at most (default: 5)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is sent (default: 0)")
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions; 1 where a bar was missed, and which."""
    output.require_page(arguments, command=COMMAND)
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal())
    clusters.down(arguments.directory)
    with startup.start(arguments.directory, programs, startup.Options(nodes=soak.node_list())) as cluster:
        installed = installation.install(cluster)
        found = soak.soak(
            installed, minutes=arguments.minutes, rate=arguments.rate, seed=arguments.seed, report=output.say
        )
    return show(arguments, found)


def show(arguments: Namespace, found: measured.Soaked) -> int:
    """Print the tables; the exit code: 1 where a bar was missed."""
    lines = report.lines(found, cores=os.cpu_count() or 1)
    output.show(arguments, lines=lines, document=found.to_object(), command=COMMAND)
    missed = verdict.missed(found)
    for line in missed:
        output.say(f"missed: {line}")
    return 1 if missed else 0
