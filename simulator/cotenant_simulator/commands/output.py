"""What all experiments ask for and print: `--json`, `--html`, `--write`, `--processes`; progress on standard error."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from cotenant_api import files, sections

if TYPE_CHECKING:
    from cotenant_simulator.report import page

Result = TypeVar("Result")

_HTML: Final = "--html"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; call it after an experiment's own."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="one JSON document on standard output instead of tables")
    group.add_argument(_HTML, type=Path, metavar="FILE", help="one self-contained page with tables and plots")
    group.add_argument(
        "--write", type=Path, metavar="FILE", help="put the tables into this Markdown file, between the markers for it"
    )
    group.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="runs at once (default: one for each core, %(default)s)",
    )


def require(arguments: argparse.Namespace, *, section: str) -> None:
    """Before a long computation: that what was found can be written.

    Raises:
        InvalidInputError: the Markdown file has no such section.
    """
    if arguments.write is not None:
        sections.require(arguments.write, command=section)


def runs(
    tasks: Sequence[Callable[[], Result]], arguments: argparse.Namespace, *, title: str, names: Sequence[str]
) -> list[Result]:
    """All results in order, with a bar on standard error.

    Args:
        tasks: see `sweeps.run`.
        arguments: of the command line.
        title: of the experiment.
        names: of each task, shown as it is done.
    """
    from rich import console, progress

    from cotenant_simulator import sweeps

    found = []
    to = console.Console(stderr=True)
    with progress.Progress(*progress.Progress.get_default_columns(), console=to, transient=True) as bar:
        known = bar.add_task(title, total=len(tasks))
        for name, result in zip(names, sweeps.run(tasks, processes=arguments.processes), strict=True):
            found.append(result)
            bar.update(known, advance=1, description=f"{title}: {name}")
    return found


def emit(shown: "page.Page", arguments: argparse.Namespace, *, section: str) -> None:
    """Show a page as asked for.

    Raises:
        InvalidInputError: a file cannot be written.
    """
    from cotenant_simulator.report import html, markdown, terminal

    if arguments.html is not None:
        files.replace(arguments.html, html.render(shown).encode(), field=_HTML)
    if arguments.write is not None:
        sections.replace(arguments.write, list(markdown.lines(shown)), command=section)
    if arguments.json:
        json.dump(shown.document, sys.stdout, allow_nan=False)
        sys.stdout.write("\n")
        return
    from rich import console

    terminal.show(shown, console.Console())
