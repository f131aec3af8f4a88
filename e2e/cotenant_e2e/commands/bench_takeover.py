"""A leader that takes over on a real control plane: what fencing costs."""

import os
from argparse import ArgumentParser, Namespace

from cotenant_e2e import binaries, progress, startup
from cotenant_e2e import cluster as clusters
from cotenant_e2e.benchmark import field, objects, takeover
from cotenant_e2e.commands import arguments as shared
from cotenant_e2e.commands import output

COMMAND = "make bench-takeover"
SUMMARY = "measure how long a new leader takes to fence the pods that a former leader may be binding"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--nodes", type=int, default=100, metavar="N", help="nodes (default: 100)")
    parser.add_argument(
        "--pods", type=int, nargs="+", default=[0, 1000], metavar="N", help="pods to fence (default: 0 1000)"
    )
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    output.require_page(arguments, command=COMMAND)
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal())
    clusters.down(arguments.directory)
    options = startup.Options(nodes=objects.node_list(arguments.nodes))
    with startup.start(arguments.directory, programs, options) as cluster:
        place = field.Field(cluster)
        place.prepare()
        measured = [takeover.measure(place, pods=pods) for pods in arguments.pods]
    document = {"v": 1, "measurements": [one.to_object() for one in measured]}
    lines = takeover.lines(measured, cores=os.cpu_count() or 1)
    output.show(arguments, lines=lines, document=document, command=COMMAND)
    return 0
