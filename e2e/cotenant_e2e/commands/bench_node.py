"""The node agent on a real kubelet and containerd: its calls, what it adds to a start, what it weighs."""

import os
from argparse import ArgumentParser, Namespace

from cotenant_e2e import binaries, progress, startup, versions
from cotenant_e2e import cluster as clusters
from cotenant_e2e.benchmark.node import crowd, place, results, starts, tables
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output
from cotenant_e2e.node import machine

COMMAND = "make bench-node"
SUMMARY = "measure the node agent on a real node with stand-in GPUs, as root"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="pods of each kind, singly (default: 20)")
    parser.add_argument("--pods", type=int, default=crowd.PODS, metavar="N", help="at once (default: kubelet's most)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="of pods at once (default: 1)")
    parser.add_argument(
        "--idle", type=float, default=60, metavar="SECONDS", help="to watch the idle agent (default: 60)"
    )
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    machine.require_able()
    output.require_page(arguments, command=COMMAND)
    wanted = (*versions.PROGRAMS, *versions.NODE_PROGRAMS)
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal(), programs=wanted)
    clusters.down(arguments.directory)
    with startup.start(arguments.directory, programs, startup.Options(node=place.NODE)) as cluster:
        measured = _measure(place.prepare(cluster), arguments)
    output.show(arguments, lines=tables.lines(measured), document=measured.to_object(), command=COMMAND)
    return 0


def _measure(where: place.Place, arguments: Namespace) -> results.Measurement:
    pairs = starts.measure(where, pairs=arguments.pairs, report=output.say)
    crowds = [
        crowd.measure(where, count=arguments.pods, idle_seconds=arguments.idle, report=output.say)
        for _ in range(arguments.rounds)
    ]
    output.say(f"{arguments.idle:g} s without a tenant")
    empty = crowd.rest(where, arguments.idle)
    return results.Measurement(gpus=place.GPUS, pairs=pairs, crowds=crowds, empty=empty)
