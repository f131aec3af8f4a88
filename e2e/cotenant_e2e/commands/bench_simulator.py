"""The simulator alone: CPU time and memory of whole runs, at several sizes."""

import re
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from cotenant_e2e.benchmark import plots
from cotenant_e2e.benchmark.simulator import runs, tables, workload
from cotenant_e2e.commands import output

COMMAND = "make bench-simulator"
SUMMARY = "measure CPU time and memory of simulated runs, up to 100,000 jobs on 10,000 GPUs"

JOBS_PER_NODE: Final = 80
_CPUS: Final = Path("/proc/cpuinfo")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=_size,
        default=[workload.Size(nodes, JOBS_PER_NODE * nodes) for nodes in (13, 125, 375, 750, 1250)],
        metavar="NODES:JOBS",
        help="nodes of eight simulated GPUs, and jobs (default: up to 1250:100000)",
    )
    output.add(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the cost against the number of jobs (SVG)")


def run(arguments: Namespace) -> int:
    """Print what was measured, with its conditions."""
    output.require_page(arguments, command=COMMAND)
    measured = []
    for size in arguments.sizes:
        measured.append(runs.measure(size))
        output.say(
            f"{size.gpus} GPUs, {size.jobs} jobs: {measured[-1].cpu_seconds:.1f} s, {measured[-1].memory_mib} MiB"
        )
    core = _core()
    document = {"v": 1, "core": core, "measurements": [one.to_object() for one in measured]}
    output.show(arguments, lines=tables.lines(measured, core=core), document=document, command=COMMAND)
    if arguments.plot is not None:
        plots.draw_simulator(measured, arguments.plot)
    return 0


def _core() -> str:
    """Return what kind it is."""
    found = re.search(r"^model name\s*:\s*(.+)$", _CPUS.read_text(), re.MULTILINE)
    return found[1] if found else "unknown"


def _size(text: str) -> workload.Size:
    nodes, _, jobs = text.partition(":")
    return workload.Size(int(nodes), int(jobs))
