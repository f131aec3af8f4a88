"""Ratios of speed against plain kube-scheduler, on this machine."""

import os
from argparse import ArgumentParser, Namespace

from cotenant_e2e import binaries, progress, startup
from cotenant_e2e import cluster as clusters
from cotenant_e2e.benchmark import field, objects, results, rounds, tables
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output

COMMAND = "make bench"
SUMMARY = "measure pods per second through Cotenant against plain kube-scheduler"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        default=[100, 1000],
        metavar="N",
        help=f"numbers of nodes of {objects.GPUS_PER_NODE} simulated GPUs (default: 100 1000)",
    )
    parser.add_argument("--pods", type=int, default=2000, metavar="N", help="pods of each round (default: 2000)")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="rounds of each contender (default: 5)")
    parser.add_argument(
        "--contenders",
        type=rounds.Contender,
        nargs="+",
        default=list(rounds.Contender),
        choices=list(rounds.Contender),
        metavar="NAME",
        help=f"only these of {', '.join(rounds.Contender)}",
    )
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print the ratios, with their conditions."""
    output.require_page(arguments, command=COMMAND)
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal())
    measured = []
    for nodes in arguments.nodes:
        clusters.down(arguments.directory)
        options = startup.Options(nodes=objects.node_list(nodes), unlimited=True)
        with startup.start(arguments.directory, programs, options) as cluster:
            place = field.Field(cluster)
            place.prepare()
            measured.append(_measure(place, arguments, nodes))
    document = {"v": 1, "measurements": [one.to_object() for one in measured]}
    output.show(arguments, lines=tables.lines(measured), document=document, command=COMMAND)
    return 0


def _measure(place: field.Field, arguments: Namespace, nodes: int) -> results.Measurement:
    turns = []
    for turn in range(1, arguments.turns + 1):
        found = {}
        for contender in arguments.contenders:
            found[contender] = one = rounds.measure(place, contender, pods=arguments.pods)
            output.say(
                f"{nodes} nodes, turn {turn} of {arguments.turns}: {contender}: {one.pods_per_second:.0f} pods/s"
            )
        turns.append(found)
    gpus = nodes * objects.GPUS_PER_NODE
    return results.Measurement(nodes=nodes, gpus=gpus, cores=os.cpu_count() or 1, turns=turns)
