"""`cotenant simulate kace`: partner choice on measured pairs and triples."""

import argparse
import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cotenant_api import errors
from cotenant_simulator.commands import output

if TYPE_CHECKING:
    from cotenant_predictor.datasets.joint import Joint
    from cotenant_predictor.evaluation.colocation import Bench
    from cotenant_simulator.kace import judging, report

SECTION: Final = "cotenant simulate kace"
"""What names the section of a page that `--write` replaces."""

SUMMARY = "who should share a GPU with whom: each way to choose a partner, against what was measured (as in KACE)"
_SPLITS: Final = ("random", "leave-group-out", "leave-family-out", "leave-gpu-out")
_DEFAULT_SPLITS: Final = ("random", "leave-family-out")
_SHUFFLES: Final = 5
_MOST_SHUFFLES: Final = 100
_GAVEL_FACTS: Final = (
    (
        "Measured by others (Gavel; Narayanan et al., OSDI 2020): steps per second of 26 training jobs, alone and in "
        "pairs, on three GPU models; how pairs shared the GPU was not recorded."
    ),
    (
        "Known of a job: its measured steps per second alone; memory, utilization and all else are predicted from its "
        "computation graph."
    ),
)


class _Data(NamedTuple):
    paths: tuple[Path, ...]
    simulated: bool


class _Key(NamedTuple):
    split: str
    size: int
    bench: str


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument(
        "--measurements",
        action="append",
        type=Path,
        default=[],
        metavar="PATH",
        help="measurement and graph files, or folders of them (repeat for more); default: Gavel's pairs, which ship",
    )
    parser.add_argument("--simulated", action="store_true", help="read simulated lines alone, which are refused else")
    parser.add_argument(
        "--split",
        action="append",
        choices=_SPLITS,
        default=[],
        help="what is held out (repeat for more); default: random and leave-family-out, where the data allow them",
    )
    parser.add_argument(
        "--shuffles",
        type=int,
        default=_SHUFFLES,
        metavar="N",
        help="how often the random split shuffles (default: %(default)s)",
    )
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judge every way by every group; progress goes to standard error."""
    from cotenant_simulator.kace import judging, report

    output.require(arguments, section=SECTION)
    if not 1 <= arguments.shuffles <= _MOST_SHUFFLES:
        raise errors.InvalidInputError("--shuffles", arguments.shuffles, f"must be 1 to {_MOST_SHUFFLES}")
    if arguments.simulated and not arguments.measurements:
        raise errors.InvalidInputError("--simulated", True, "needs --measurements: the pairs that ship were measured")
    data = _Data(tuple(arguments.measurements), arguments.simulated)
    joint = _joint(data)
    benches = {split: found for split in _asked(arguments) if (found := _benches(joint, split, arguments))}
    if not benches:
        raise errors.InvalidInputError(
            "--measurements", " ".join(map(str, data.paths)), f"allows none of the splits {', '.join(_DEFAULT_SPLITS)}"
        )
    keys = [
        _Key(split, size, bench.name)
        for split, found in benches.items()
        for size in judging.SIZES
        for bench in found
        if size in judging.sizes(bench)
    ]
    tasks = [functools.partial(_judged, data, key, shuffles=arguments.shuffles) for key in keys]
    targets = output.runs(tasks, arguments, title=SECTION, names=[", ".join(map(str, key)) for key in keys])
    shown = report.page_of(
        _results(dict(zip(keys, targets, strict=True))), _source(joint, arguments), command=_command(arguments)
    )
    output.emit(shown, arguments, section=SECTION)
    return 0


def _asked(arguments: argparse.Namespace) -> Sequence[str]:
    return tuple(dict.fromkeys(arguments.split)) or _DEFAULT_SPLITS


def _benches(joint: "Joint", split: str, arguments: argparse.Namespace) -> "list[Bench]":
    """Those that can be split so; none where nobody asked for what is not possible."""
    from cotenant_predictor.evaluation import colocation

    try:
        return colocation.splittable(joint, split, progress=_told)
    except errors.InvalidInputError as error:
        if arguments.split:
            raise
        _told(f"no {split}: {error}")
        return []


def _judged(data: _Data, key: _Key, *, shuffles: int) -> "list[judging.Target]":
    """Return a task of its own process: it reads the data itself."""
    from cotenant_predictor.evaluation import colocation
    from cotenant_simulator.kace import judging

    benches = {bench.name: bench for bench in colocation.benches(_joint(data))}
    return judging.judged(benches[key.bench], split=key.split, size=key.size, shuffles=shuffles)


@functools.lru_cache(maxsize=1)
def _joint(data: _Data) -> "Joint":
    from cotenant_predictor.datasets import gavel, joint, measurements

    if not data.paths:
        return gavel.load()
    return joint.of_measurements(measurements.load(data.paths, simulated=data.simulated))


def _results(found: "Mapping[_Key, Sequence[judging.Target]]") -> "list[report.Result]":
    """Those that have a target."""
    from cotenant_simulator.kace import report

    results = []
    for split, size in dict.fromkeys((key.split, key.size) for key in found):
        here = {key.bench: targets for key, targets in found.items() if key[:2] == (split, size) and targets}
        if here:
            results.append(report.Result(split=split, size=size, targets=here))
    if not results:
        remedy = "holds no job with two measured candidates of which every way has something to say: give more groups"
        raise errors.InvalidInputError("--measurements", len(found), remedy)
    return results


def _source(joint: "Joint", arguments: argparse.Namespace) -> "report.Source":
    from cotenant_predictor.evaluation import colocation
    from cotenant_simulator.kace import judging, report

    groups: dict[int, int] = {}
    for bench in colocation.benches(joint):
        for size, count in judging.sizes(bench).items():
            groups[size] = groups.get(size, 0) + count
    if not arguments.measurements:
        return report.Source(name="Gavel's pairs", facts=_GAVEL_FACTS, simulated=False, groups=groups)
    facts = ["Of each job alone: what the files hold; what they do not is predicted from its computation graph."]
    if joint.simulated:
        facts.insert(0, "A simulated GPU gave these figures: they say nothing of a real one.")
    name = ", ".join(path.name for path in arguments.measurements)
    return report.Source(name=name, facts=facts, simulated=joint.simulated, groups=groups)


def _command(arguments: argparse.Namespace) -> str:
    options = [f" --measurements {path}" for path in arguments.measurements]
    options += [" --simulated"] if arguments.simulated else []
    options += [f" --split {split}" for split in arguments.split]
    options += [f" --shuffles {arguments.shuffles}"] if arguments.shuffles != _SHUFFLES else []
    return SECTION + "".join(options)


def _told(text: str) -> None:
    print(f"{SECTION}: {text}", file=sys.stderr, flush=True)
