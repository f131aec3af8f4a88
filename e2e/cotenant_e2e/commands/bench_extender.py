"""The extender alone: start, memory, filter, events; at several sizes."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from cotenant_api import sections
from cotenant_e2e.benchmark import inside, plots, tables, world

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
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this page, between its markers")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the cost against the size of the cluster (SVG)")


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    if arguments.write is not None:
        sections.require(arguments.write, command=COMMAND)
    measured = []
    for size in arguments.sizes:
        measured.append(inside.measure(size))
        print(f"{size.nodes} nodes, {size.pods} pods: measured", file=sys.stderr, flush=True)
    _show(measured, arguments)
    return 0


def _show(measured: Sequence[inside.Measurement], arguments: Namespace) -> None:
    lines = tables.of_extender(measured)
    if arguments.json:
        print(json.dumps({"v": 1, "cores": inside.CORES, "measurements": [one.to_object() for one in measured]}))
    else:
        print("\n".join(lines))
    if arguments.plot is not None:
        plots.draw(measured, arguments.plot)
    if arguments.write is not None:
        sections.replace(arguments.write, lines, command=COMMAND)


def _size(text: str) -> world.Size:
    nodes, _, pods = text.partition(":")
    return world.Size(int(nodes), int(pods))
