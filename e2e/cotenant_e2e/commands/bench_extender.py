"""The extender alone: start, memory, filter, events; at several sizes."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from cotenant_e2e.benchmark import blocking, inside, plots, tables, world
from cotenant_e2e.commands import output

COMMAND = "make bench-extender"
SUMMARY = "measure filter, events, memory and start of the extender at the size of a large cluster"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=_size,
        default=[world.Size(nodes, 10 * nodes) for nodes in (100, 500, 1000, 2000, 5000)],
        metavar="NODES:PODS",
        help="nodes of eight simulated GPUs, and placed pods (default: up to 5000:50000)",
    )
    parser.add_argument(
        "--blocks",
        nargs="*",
        type=int,
        default=[5000],
        metavar="NODES",
        help="sizes at which the longest turn of the event loop is measured (default: 5000)",
    )
    output.add(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the cost against the size of the cluster (SVG)")


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    output.require_page(arguments, command=COMMAND)
    measured = []
    for size in arguments.sizes:
        measured.append(inside.measure(size))
        output.say(f"{size.nodes} nodes, {size.pods} pods: measured")
    blocks = {}
    for nodes in arguments.blocks:
        blocks[nodes] = blocking.measure(nodes, now=inside.now())
        output.say(f"{nodes} nodes: the longest turns of the event loop are measured")
    document = {
        "v": 1,
        "cores": inside.CORES,
        "measurements": [one.to_object() for one in measured],
        "longestTurns": [{"nodes": nodes, "milliseconds": one.to_object()} for nodes, one in blocks.items()],
    }
    output.show(arguments, lines=tables.of_extender(measured, blocks), document=document, command=COMMAND)
    if arguments.plot is not None:
        plots.draw(measured, arguments.plot)
    return 0


def _size(text: str) -> world.Size:
    nodes, _, pods = text.partition(":")
    return world.Size(int(nodes), int(pods))
