"""The node agent on a real kubelet and containerd: its calls, what it adds to a start, what it weighs."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from cotenant_api import sections
from cotenant_e2e import binaries, progress, startup, versions
from cotenant_e2e import cluster as clusters
from cotenant_e2e.benchmark.node import crowd, place, results, starts, tables
from cotenant_e2e.commands import arguments as shared
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
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this page, between its markers")


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    machine.require_able()
    if arguments.write is not None:
        sections.require(arguments.write, command=COMMAND)
    wanted = (*versions.PROGRAMS, *versions.NODE_PROGRAMS)
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal(), programs=wanted)
    clusters.down(arguments.directory)
    with startup.start(arguments.directory, programs, startup.Options(node=place.NODE)) as cluster:
        measured = _measure(place.prepare(cluster), arguments)
    lines = tables.lines(measured)
    print(json.dumps(measured.to_object()) if arguments.json else "\n".join(lines))
    if arguments.write is not None:
        sections.replace(arguments.write, lines, command=COMMAND)
    return 0


def _measure(where: place.Place, arguments: Namespace) -> results.Measurement:
    pairs = starts.measure(where, pairs=arguments.pairs, report=_say)
    crowds = [
        crowd.measure(where, count=arguments.pods, idle_seconds=arguments.idle, report=_say)
        for _ in range(arguments.rounds)
    ]
    _say(f"{arguments.idle:g} s without a tenant")
    empty = crowd.rest(where, arguments.idle)
    return results.Measurement(gpus=place.GPUS, pairs=pairs, crowds=crowds, empty=empty)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
