"""Shows what is being built and for how long: live on a terminal, else one line for each event."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import Progress as Rows
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

REMIND_SECONDS = 60

Detail = Callable[[str], None]
"""Says how far a step is ("412 packages")."""


class Progress(Protocol):
    """Shows steps of which each takes long."""

    def step(self, what: str) -> AbstractContextManager[Detail]:
        """Show this step until the block ends."""

    def note(self, text: str) -> None:
        """Say something once."""


class PlainProgress:
    """One line at the start of a step, at its end, and every minute in between."""

    def __init__(self, out: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._out, self._now = out, now

    @contextmanager
    def step(self, what: str) -> Iterator[Detail]:
        """Show this step until the block ends."""
        began = reminded = self._now()
        self.note(f"{what} ...")

        def detail(text: str) -> None:
            nonlocal reminded
            now = self._now()
            if now - reminded >= REMIND_SECONDS:
                reminded = now
                self.note(f"{what}: {text}, {now - began:.0f} s")

        yield detail
        self.note(f"{what}: done in {self._now() - began:.0f} s")

    def note(self, text: str) -> None:
        """Say something once."""
        print(text, file=self._out, flush=True)


class LiveProgress:
    """One row for each step, with a running clock."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, what: str) -> Iterator[Detail]:
        """Show this step until the block ends; what is printed on the console meanwhile stands above the row."""
        columns = (
            SpinnerColumn(finished_text="[green]✔"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[detail]}"),
        )
        with Rows(*columns, console=self._console) as rows:
            row = rows.add_task(what, total=None, detail="")
            yield lambda text: rows.update(row, detail=text)
            rows.update(row, total=1, completed=1)

    def note(self, text: str) -> None:
        """Say something once."""
        self._console.print(text, highlight=False, markup=False)


def of_terminal(out: TextIO = sys.stderr) -> Progress:
    """Return the one that suits where the output goes."""
    return LiveProgress(Console(file=out)) if out.isatty() else PlainProgress(out)


def of_console(console: Console) -> Progress:
    """On the console of everything else where that is a terminal, else on standard error."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(sys.stderr)
