"""`cotenant evaluate`: how far off predictions are on measured data, beside the published baselines."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant_api import errors, sections
from cotenant_predictor.commands import arguments as shared

if TYPE_CHECKING:
    from cotenant_predictor.evaluation.report import Row
    from cotenant_predictor.evaluation.run import Evaluation, Request

SUMMARY = "score predictions on measured jobs, alone and together, beside the published baselines"
EXAMPLES = """\
examples: cotenant evaluate gavel
          cotenant evaluate measured/data --split leave-group-out --learning-curve --plots plots
"""

_SPLITS = ("random", "leave-group-out", "leave-family-out", "leave-gpu-out")
_TARGETS = (
    "utilization",
    "smActivity",
    "dramActivity",
    "memoryUtilization",
    "memoryPeakMiB",
    "stepMilliseconds",
    "powerWatts",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "data", nargs="+", metavar="DATA", help="measurement and graph files, folders of them, or a set that ships"
    )
    parser.add_argument(
        "--split",
        action="append",
        choices=_SPLITS,
        default=[],
        help="what is held out (repeat for more); default: every split that the data allow",
    )
    parser.add_argument(
        "--target",
        action="append",
        choices=_TARGETS,
        default=[],
        help="what of single jobs is scored (repeat for more); default: every value that was measured",
    )
    parser.add_argument("--learning-curve", action="store_true", help="score and fit time against training size, too")
    shared.add_devices(parser)
    parser.add_argument("--simulated", action="store_true", help="read simulated lines alone, which are refused else")
    parser.add_argument("--model", metavar="DIR", help="whose learned kernels are used; default: the model that ships")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random split (default: 0)")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output instead of tables")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw predictions into this folder (SVG and PNG)")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put the tables into this Markdown file, between this call's markers"
    )


def run(arguments: argparse.Namespace) -> int:
    """Score and report; progress goes to standard error."""
    from cotenant_predictor.evaluation import report
    from cotenant_predictor.evaluation.run import Request

    request = Request(
        splits=tuple(arguments.split),
        targets=tuple(arguments.target),
        clock=time.perf_counter if arguments.learning_curve else None,
        seed=arguments.seed,
    )
    options = [*arguments.data, *(f"--split {kind}" for kind in arguments.split)]
    command = f"cotenant evaluate {' '.join(options)}"
    if arguments.write is not None:
        sections.require(arguments.write, command=command)
    evaluations = _evaluations(arguments, request)
    rows = [row for evaluation in evaluations for row in evaluation.rows]
    if arguments.plots is not None:
        _draw(arguments.plots, evaluations)
    if arguments.write is not None:
        sections.replace(arguments.write, _lines(rows), command=command)
    text = json.dumps(report.document(rows), allow_nan=False) if arguments.json else "\n".join(_lines(rows))
    print(text, flush=True)
    return 0


def _evaluations(arguments: argparse.Namespace, request: "Request") -> "list[Evaluation]":
    from cotenant_predictor import devices
    from cotenant_predictor.datasets import joint, measurements, shipped
    from cotenant_predictor.evaluation import run as evaluation
    from cotenant_predictor.models import store

    names, paths = shipped.told_apart(arguments.data)
    model = store.load(arguments.model)
    found = [evaluation.of_set(name, request, knowledge=model.kernel_knowledge(), progress=_progress) for name in names]
    if paths:
        read = measurements.load(paths, known=devices.with_file(arguments.devices), simulated=arguments.simulated)
        if alone := read.alone():
            found.append(evaluation.of_jobs(alone, request, knowledge=model.kernel_knowledge(), progress=_progress))
        if read.joint():
            found.append(evaluation.of_pairs(joint.of_measurements(read), request, progress=_progress))
    if not any(one.rows for one in found):
        raise errors.InvalidInputError("DATA", " ".join([*names, *map(str, paths)]), "holds nothing that can be scored")
    return found


def _lines(rows: "list[Row]") -> list[str]:
    from cotenant_predictor.evaluation import report

    return [*report.tables(rows), *report.group_tables(rows), *report.learning_table(rows)]


def _draw(folder: Path, evaluations: "list[Evaluation]") -> None:
    from cotenant_predictor.evaluation import plots

    files_written = [file for one in evaluations for scored in one.scored for file in plots.write(folder, scored)]
    for file in files_written:
        _progress(f"wrote {file}")
    if not files_written:
        _progress("no pictures: they are drawn of measured jobs alone, which these data do not hold")


def _progress(text: str) -> None:
    print(f"cotenant evaluate: {text}", file=sys.stderr, flush=True)
