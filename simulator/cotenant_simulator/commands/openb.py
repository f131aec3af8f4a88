"""`cotenant simulate openb`: the published fragmentation experiment, after its self-check."""

import argparse
import functools
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant_api import choices, errors
from cotenant_simulator.commands import output, seeds

if TYPE_CHECKING:
    from cotenant_simulator.openb import bounds, expected, experiment, report, trace

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
        help=f"how GPUs are chosen (repeat for more): {', '.join(choices.Placement)}; or all (without "
        f"Interference, which is FirstFit where nothing is predicted); default: {choices.DEFAULT_PLACEMENT}",
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
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check the replay against published curves, then report; progress goes to standard error.

    The exit code is 1 where a placement was unlawful, or a pod was refused though it fits.
    """
    from cotenant_simulator.openb import asked, expected, report

    output.require(arguments, section=SECTION)
    chosen, settings = seeds.read(arguments.seeds), asked.settings(arguments.placement, arguments.max_tenants)
    traces = _traces(arguments.trace_dir, arguments.trace)
    published = expected.read(arguments.trace_dir) or {}
    known = _self_checked(arguments, published, traces, chosen)
    found = _series(arguments, _tasks(traces, settings, chosen), known)
    output.emit(
        report.shown(found, published, command=_command(arguments)),
        arguments,
        section=SECTION,
        documents=[report.document(one, tells_tenants=bool(arguments.max_tenants)) for one in found],
    )
    faults = report.faults(found)
    if faults is not None:
        _progress(faults)
    return 0 if faults is None else 1


def _command(arguments: argparse.Namespace) -> str:
    """Return the call, without where files lie and how fast it is done."""
    options = [
        *(f"--trace {name}" for name in arguments.trace),
        *(f"--placement {placement}" for placement in arguments.placement),
        f"--seeds {arguments.seeds}",
        *(f"--max-tenants {limit}" for limit in arguments.max_tenants),
    ]
    return f"{SECTION} {' '.join(options)}"


def _traces(folder: Path, asked: Sequence[str]) -> "tuple[trace.Trace, ...]":
    from cotenant_simulator.openb import asked as words
    from cotenant_simulator.openb import trace

    names = trace.names_in(folder) if words.ALL in asked else tuple(dict.fromkeys(asked))
    if not names:
        remedy = f"must be a folder that holds {trace.PODS_PREFIX}NAME.csv"
        raise errors.InvalidInputError("--trace-dir", str(folder), remedy)
    return tuple(trace.read(folder, name) for name in names)


def _self_checked(
    arguments: argparse.Namespace, published: "Published", traces: "Sequence[trace.Trace]", seeds: Sequence[int]
) -> "Known":
    """Results of the runs that were compared; before any other figure is told.

    A trace without published curves rests on those of the others in its folder.
    """
    from cotenant_simulator.openb import experiment, selfcheck, trace

    folder, by_name = arguments.trace_dir, {read.name: read for read in traces}
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
        tasks += [
            functools.partial(selfcheck.checked, _task(read, experiment.Setting(one.policy), one.seed), published[one])
            for one in mine
        ]
    told = [f"{one.trace}, {one.policy}, seed {one.seed}: as published" for one in runs]
    results = output.runs(tasks, arguments, title=f"{SECTION}: self-check", names=told)
    if results:
        _progress(f"self-check: {len(results)} runs are as published")
    return {result.key: result for result in results}


def _series(arguments: argparse.Namespace, tasks: "Sequence[experiment.Task]", known: "Known") -> "list[report.Series]":
    """All that was asked for, each held against its bound; what the self-check has run already is not run again."""
    from cotenant_simulator.openb import bounds, experiment, report

    left = [task for task in tasks if task.key not in known]
    runs = [functools.partial(experiment.result, task) for task in left]
    results = output.runs(runs, arguments, title=SECTION, names=[_name(task.key) for task in left])
    known = known | {result.key: result for result in results}
    limits = _bounds(arguments, tasks)
    by_setting: dict[tuple[str, experiment.Setting], list[experiment.Key]] = {}
    for task in tasks:
        by_setting.setdefault(task.key[:2], []).append(task.key)
    found = []
    for (name, setting), keys in by_setting.items():
        of_keys = tuple(limits[name, setting.max_tenants, key.seed] for key in keys)
        for key, limit in zip(keys, of_keys, strict=True):
            bounds.require(_name(key), known[key].outcome.allocated_percent, limit)
        found.append(
            report.Series(trace=name, setting=setting, results=tuple(known[key] for key in keys), bounds=of_keys)
        )
    return found


def _bounds(
    arguments: argparse.Namespace, tasks: "Sequence[experiment.Task]"
) -> "dict[tuple[str, int, int], bounds.Bounds]":
    """By trace, limit on tenants and seed."""
    from cotenant_simulator.openb import bounds

    wanted = {(task.read.name, task.setting.max_tenants, task.seed): task.read for task in tasks}
    runs = [
        functools.partial(bounds.of, read, seed=seed, max_tenants=limit) for (_, limit, seed), read in wanted.items()
    ]
    told = [f"{name}, at most {limit} tenants, seed {seed}" for name, limit, seed in wanted]
    return dict(zip(wanted, output.runs(runs, arguments, title=f"{SECTION}: bound", names=told), strict=True))


def _tasks(
    traces: "Sequence[trace.Trace]", settings: "Sequence[experiment.Setting]", seeds: Sequence[int]
) -> "list[experiment.Task]":
    return [_task(read, setting, seed) for read in traces for setting in settings for seed in seeds]


def _task(read: "trace.Trace", setting: "experiment.Setting", seed: int) -> "experiment.Task":
    from cotenant_simulator.openb import experiment

    return experiment.Task(read=read, setting=setting, seed=seed, clock=time.perf_counter)


def _name(key: "experiment.Key") -> str:
    return f"{key.trace}, {key.setting.policy}, at most {key.setting.max_tenants} tenants, seed {key.seed}"


def _progress(text: str) -> None:
    print(f"{SECTION}: {text}", file=sys.stderr, flush=True)
