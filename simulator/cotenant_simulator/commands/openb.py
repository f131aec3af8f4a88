"""`cotenant simulate openb`: the published fragmentation experiment, after its self-check."""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant_api import errors, packingpolicy, sections
from cotenant_simulator.commands import seeds

if TYPE_CHECKING:
    from cotenant_simulator.openb import expected, experiment, report, trace

    Published = Mapping[expected.Run, expected.Curve]
    Known = dict[experiment.Key, experiment.Result]

SECTION = "cotenant simulate openb"
"""What names the section of a page that `--write` replaces; the section begins with the whole call."""

SUMMARY = "how much of a cluster's GPUs placements allocate on the openb trace (Weng et al., ATC 2023)"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument(
        "--trace-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder with openb_node_list_gpu_node.csv, openb_pod_list_NAME.csv and, where it was published, "
        "expected_allocation_percent.csv",
    )
    parser.add_argument(
        "--trace", action="append", required=True, metavar="NAME", help="which pods (repeat for more), or all"
    )
    parser.add_argument(
        "--placement",
        action="append",
        default=[],
        metavar="P",
        help=f"how GPUs are chosen (repeat for more): {', '.join(packingpolicy.Placement)}; or all (without "
        f"Interference, which is FirstFit where nothing is predicted); default: {packingpolicy.Spec().placement}",
    )
    parser.add_argument("--seeds", default="42-51", metavar="LIST", help="such as 42-51 or 42,44 (default: 42-51)")
    parser.add_argument(
        "--max-tenants",
        action="append",
        default=[],
        type=int,
        metavar="N",
        help="pods on one GPU at most (repeat for more); default: 16, the most that a PackingPolicy can allow",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes at once; default: one for each core")
    parser.add_argument(
        "--json",
        action="store_true",
        help="JSON on standard output instead of tables: a line for each trace, placement and limit on tenants",
    )
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put the table into this Markdown file, between the markers for it"
    )


def run(arguments: argparse.Namespace) -> int:
    """Check the replay against published curves, then report; progress goes to standard error.

    The exit code is 1 where a placement was unlawful, or a pod was refused though it fits.
    """
    from cotenant_simulator.openb import asked, expected, report

    if arguments.write is not None:
        sections.require(arguments.write, command=SECTION)
    chosen, settings = seeds.read(arguments.seeds), asked.settings(arguments.placement, arguments.max_tenants)
    jobs, traces = _jobs(arguments.jobs), _traces(arguments.trace_dir, arguments.trace)
    published = expected.read(arguments.trace_dir) or {}
    known = _self_checked(arguments.trace_dir, published, traces, chosen, jobs=jobs)
    series = _series(traces, settings, chosen, known, jobs=jobs)
    names = [read.name for read in traces]
    lines = [*report.summary(series), *report.published(published, names, chosen), *report.verdicts(series)]
    if arguments.write is not None:
        sections.replace(arguments.write, [f"`{_command(arguments)}`", "", *lines], command=SECTION)
    if arguments.json:
        tells_tenants = bool(arguments.max_tenants)
        lines = [json.dumps(report.document(one, tells_tenants=tells_tenants), allow_nan=False) for one in series]
    else:
        lines = [*(line for one in series for line in report.by_seed(one)), *lines]
    print("\n".join(lines), flush=True)
    faults = report.faults(series)
    if faults is not None:
        _progress(faults)
    return 0 if faults is None else 1


def _command(arguments: argparse.Namespace) -> str:
    """The call, without where files lie and how fast it is done."""
    options = [
        *(f"--trace {name}" for name in arguments.trace),
        *(f"--placement {placement}" for placement in arguments.placement),
        f"--seeds {arguments.seeds}",
        *(f"--max-tenants {limit}" for limit in arguments.max_tenants),
    ]
    return f"{SECTION} {' '.join(options)}"


def _jobs(asked: int | None) -> int:
    if asked is None:
        return len(os.sched_getaffinity(0))
    if asked < 1:
        raise errors.InvalidInputError("--jobs", asked, "must be at least 1")
    return asked


def _traces(folder: Path, asked: Sequence[str]) -> "tuple[trace.Trace, ...]":
    from cotenant_simulator.openb import asked as words
    from cotenant_simulator.openb import trace

    names = trace.names_in(folder) if words.ALL in asked else tuple(dict.fromkeys(asked))
    if not names:
        remedy = f"must be a folder that holds {trace.PODS_PREFIX}NAME.csv"
        raise errors.InvalidInputError("--trace-dir", str(folder), remedy)
    return tuple(trace.read(folder, name) for name in names)


def _self_checked(
    folder: Path, published: "Published", traces: "Sequence[trace.Trace]", seeds: Sequence[int], *, jobs: int
) -> "Known":
    """Results of the runs that were compared; before any other figure is told.

    A trace without published curves rests on those of the others in its folder.
    """
    from cotenant_simulator.openb import experiment, selfcheck, trace

    by_name = {read.name: read for read in traces}
    unpublished = [name for name in by_name if not selfcheck.runs(published, name, seeds)]
    names = [name for name in trace.names_in(folder) if name in by_name or unpublished]
    runs = [one for name in names for one in selfcheck.runs(published, name, seeds if name in by_name else ())]
    for name in unpublished:
        others = f"the self-check rests on {len(runs)} runs of other traces" if runs else "the self-check cannot run"
        _progress(f"no curves of BestFit and GpuPacking on {name} are published in {folder}: {others}")
    tasks = []
    for name in dict.fromkeys(one.trace for one in runs):
        read = by_name.get(name) or trace.read(folder, name)
        mine = [one for one in runs if one.trace == name]
        selfcheck.require_same_cluster(read, [published[one] for one in mine])
        tasks += [_task(read, experiment.Setting(one.policy), one.seed) for one in mine]
    known = {}
    for one, result in zip(runs, experiment.results(tasks, jobs=jobs), strict=True):
        selfcheck.require(result, published[one])
        known[result.key] = result
        _progress(f"self-check: {one.trace}, {one.policy}, seed {one.seed}: as published")
    return known


def _series(
    traces: "Sequence[trace.Trace]",
    settings: "Sequence[experiment.Setting]",
    seeds: Sequence[int],
    known: "Known",
    *,
    jobs: int,
) -> "list[report.Series]":
    """All that was asked for; what the self-check has run already is not run again."""
    from cotenant_simulator.openb import experiment, report

    tasks = [_task(read, setting, seed) for read in traces for setting in settings for seed in seeds]
    left = [task for task in tasks if task.key not in known]
    for done, result in enumerate(experiment.results(left, jobs=jobs), 1):
        known[result.key] = result
        name, setting, seed = result.key
        at_most = f"at most {setting.max_tenants} tenants"
        _progress(f"{done}/{len(left)}: {name}, {setting.policy}, {at_most}, seed {seed}: {result.seconds:.1f} s")
    keys = [task.key for task in tasks]
    return [
        report.Series(
            trace=read.name,
            setting=setting,
            results=tuple(known[key] for key in keys if key[:2] == (read.name, setting)),
        )
        for read in traces
        for setting in settings
    ]


def _task(read: "trace.Trace", setting: "experiment.Setting", seed: int) -> "experiment.Task":
    from cotenant_simulator.openb import experiment

    return experiment.Task(read=read, setting=setting, seed=seed, clock=time.perf_counter)


def _progress(text: str) -> None:
    print(f"cotenant simulate openb: {text}", file=sys.stderr, flush=True)
