"""What all experiments ask for and print, in tables, as JSON, as pages and folders; progress on standard error."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cotenant_api import errors, files, sections

if TYPE_CHECKING:
    from rich import console

    from cotenant_simulator.report import page

Result = TypeVar("Result")

_HTML: Final = "--html"
_FOLDER: Final = "--folder"
_PROCESSES: Final = "--processes"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; call it after an experiment's own."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="one JSON document on standard output instead of tables")
    group.add_argument(_HTML, type=Path, metavar="FILE", help="one self-contained page with tables and plots")
    group.add_argument(
        _FOLDER, type=Path, metavar="DIR", help="the same as Markdown, HTML and JSON, with each plot as SVG, there"
    )
    group.add_argument(
        "--write", type=Path, metavar="FILE", help="put the tables into this Markdown file, between the markers for it"
    )
    group.add_argument(
        _PROCESSES,
        type=int,
        default=_cores(),
        metavar="N",
        help="runs at once (default: one for each core, %(default)s)",
    )


def _cores() -> int:
    """Those that this process may use, which in a container are fewer."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def require(arguments: argparse.Namespace, *, section: str) -> None:
    """Before a long computation: that it can be done, and what was found can be written.

    Raises:
        InvalidInputError: the Markdown file has no such section; no process is allowed.
    """
    if arguments.processes < 1:
        raise errors.InvalidInputError(_PROCESSES, arguments.processes, "must be at least 1")
    if arguments.write is not None:
        sections.require(arguments.write, command=section)


def runs(
    tasks: Sequence[Callable[[], Result]], arguments: argparse.Namespace, *, title: str, names: Sequence[str]
) -> list[Result]:
    """All results in order, with a bar on standard error; where that is no terminal, with a line for each.

    Args:
        tasks: see `sweeps.run`.
        arguments: of the command line.
        title: of the experiment.
        names: of each task, shown as it is done.
    """
    from rich import console

    from cotenant_simulator import sweeps

    to = console.Console(stderr=True)
    done = zip(names, sweeps.run(tasks, processes=arguments.processes), strict=True)
    if sys.stderr.isatty() and not to.is_dumb_terminal:
        return list(_bar(done, to, title=title, total=len(tasks)))
    return list(_lines(done, title=title, total=len(tasks)))


def _bar(done: Iterable[tuple[str, Result]], to: "console.Console", *, title: str, total: int) -> Iterator[Result]:
    """Yield the results under a bar, cleared when all is done, or when it is interrupted."""
    from rich import progress, table

    fitting = table.Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        progress.TextColumn("{task.fields[title]}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}", markup=False, table_column=fitting),
    )
    with progress.Progress(*columns, console=to, transient=True, expand=True, redirect_stdout=False) as bar:
        known = bar.add_task("", total=total, title=title)
        for name, result in done:
            bar.update(known, advance=1, description=name)
            yield result


def _lines(done: Iterable[tuple[str, Result]], *, title: str, total: int) -> Iterator[Result]:
    for number, (name, result) in enumerate(done, 1):
        print(f"{title}: {number}/{total}: {name}", file=sys.stderr, flush=True)
        yield result


def emit(
    shown: "page.Page",
    arguments: argparse.Namespace,
    *,
    section: str,
    documents: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Show a page as asked for.

    Args:
        shown: the page.
        arguments: of the command line.
        section: of a Markdown file.
        documents: for programs, a line each, in the place of the page's own.

    Raises:
        InvalidInputError: a file cannot be written.
    """
    from cotenant_simulator.report import folder, html, markdown, terminal

    if arguments.html is not None:
        files.replace(arguments.html, html.render(shown).encode(), field=_HTML)
    if arguments.folder is not None:
        for name, content in folder.contents(shown).items():
            files.replace(arguments.folder / name, content, field=_FOLDER)
    if arguments.write is not None:
        sections.replace(arguments.write, list(markdown.lines(shown)), command=section)
    if arguments.json:
        for document in documents or (shown.document,):
            json.dump(document, sys.stdout, allow_nan=False)
            sys.stdout.write("\n")
        return
    from rich import console

    terminal.show(shown, console.Console())
