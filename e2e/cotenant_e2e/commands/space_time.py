"""Inference with a deadline beside training on the cores of this machine, under each way to share them."""

import json
import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from cotenant_api import errors
from cotenant_e2e.commands import output
from cotenant_e2e.space_time import measuring, plots, processes, report, results

COMMAND = "make space-time"
MOST_LOAD = 0.3
SUMMARY = "measure an inference job with an SLO beside training under each way to share the cores (about 20 minutes)"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    measuring.add(parser)
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="take results, and measure nothing")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the results as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them as SVG")
    output.add(parser)


def run(arguments: Namespace) -> int:
    """Print what was measured. 1: the bar is missed, or nothing could be compared; a quick run has no bar."""
    output.require_page(arguments, command=COMMAND)
    if arguments.source is not None:
        found = results.of_object(json.loads(arguments.source.read_text(encoding="utf-8")))
    else:
        found = _measured(arguments)
    if arguments.keep is not None:
        measuring.keep(found, arguments.keep)
    if arguments.plot is not None:
        plots.draw(found, arguments.plot)
    output.show(arguments, lines=_lines(arguments, found), document=found.to_object(), command=COMMAND)
    return 0 if found.quick or results.passes(found) else 1


def _lines(arguments: Namespace, found: results.Run) -> list[str]:
    """Return the tables, with the picture before them where a page gets both."""
    if arguments.plot is None or arguments.write is None:
        return report.lines(found)
    place = os.path.relpath(arguments.plot, arguments.write.parent)
    return [f"![{report.picture(found)}]({place})", "", *report.lines(found)]


def _measured(arguments: Namespace) -> results.Run:
    if arguments.device == "cpu" and len(os.sched_getaffinity(0)) < 2:
        raise errors.InvalidInputError("--device", "cpu", "needs two cores: with one there is no split to compare with")
    load = os.getloadavg()[0]
    if load > MOST_LOAD:
        output.say(f"other programs compute on this machine (load {load:.2f}): the figures will be noise")
    try:
        return measuring.run(arguments)
    except processes.WorkerError as error:
        raise errors.InvalidInputError("--python", arguments.python, f"must have torch: {error}") from error
