"""What people see: a live table on a terminal, plain lines elsewhere, and the summary at the end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cotenant_e2e.demo import terminal
from cotenant_e2e.demo.rows import Row
from cotenant_e2e.demo.summary import Summary, percentile

_STYLES = {"Running": "green", "Queued": "yellow", "Pending": "yellow", "Failed": "bold red", "Succeeded": "dim"}
PICTURE_WIDTH = 150
_CHROME_LINES = 6
"""Lines of a table that hold no row: title, header, rules, what is left out."""


class Screen(Protocol):
    """Shows rows as they change, until the block ends."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End."""

    def show(self, rows: Sequence[Row], headline: str, *, seconds: float) -> None:
        """Show what is now, `seconds` after the demo began."""


def of(console: Console) -> Screen:
    """Return the live table on a terminal, else plain lines."""
    return LiveTable(console) if console.is_terminal else PlainLines(console)


class LiveTable:
    """A table that is drawn again and again; what does not fit on the terminal is counted."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, rows: Sequence[Row], headline: str, *, seconds: float) -> None:  # noqa: ARG002 - part of the title
        """Draw the table anew."""
        room = max(self._console.height - _CHROME_LINES, 5)
        self._live.update(table(rows, title=headline, room=room, width=self._console.width), refresh=True)


class PlainLines:
    """One line for each change of a job's phase or place, and the headline every few seconds."""

    EVERY_SECONDS = 5

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0
        self._shown: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, rows: Sequence[Row], headline: str, *, seconds: float) -> None:
        """Print what has changed since the last time."""
        for row in rows:
            state = (row.phase, row.gpus)
            if self._shown.get((row.namespace, row.name)) != state:
                self._shown[row.namespace, row.name] = state
                self._print(line(row, seconds=seconds))
        if seconds >= self._next:
            self._next = seconds + self.EVERY_SECONDS
            self._print(headline)

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)


def picture(rows: Sequence[Row], headline: str, path: Path) -> None:
    """Write the table as an SVG picture."""
    shown = table(rows, title=headline, room=len(rows), width=PICTURE_WIDTH)
    terminal.picture(shown, path, title="make demo: real Kubernetes, simulated GPUs", width=PICTURE_WIDTH)


def headline(rows: Sequence[Row], *, seconds: float, gpus_in_use: int, gpus: int) -> str:
    """One line: how many of what, and that the GPUs are simulated."""
    counts = {phase: sum(row.phase == phase for row in rows) for phase in ("Running", "Queued", "Succeeded", "Failed")}
    words = ", ".join(f"{count} {phase.lower()}" for phase, count in counts.items() if count)
    return f"{seconds:5.1f} s   {words}   {gpus_in_use} of {gpus} simulated GPUs in use"


class _Column(NamedTuple):
    """`least`: characters that it needs. `part`: it gets one of so many parts of the screen; the last gets the rest."""

    heading: str
    least: int
    part: int = 0
    is_number: bool = False
    dispensable: bool = False


_WIDE: Final = 120
_COLUMNS: Final = (
    _Column("Job", 22, part=5),
    _Column("Kind", 10, dispensable=True),
    _Column("Phase", 9),
    _Column("Util %", 9, is_number=True),
    _Column("GiB", 5, is_number=True, dispensable=True),
    _Column("Share", 5, is_number=True, dispensable=True),
    _Column("GPU (simulated)", 8),
    _Column("Co-tenants, or why it waits", 10),
)


def table(rows: Sequence[Row], *, title: str, room: int, width: int) -> RenderableType:
    """Return the table; rows beyond `room` are counted in its last line.

    A narrow screen lacks kind, memory and share.
    """
    drawn = Table(title=title, title_justify="left", title_style="bold", expand=True, box=None, pad_edge=False)
    shown = [column for column in _COLUMNS if width >= _WIDE or not column.dispensable]
    for column in shown:
        drawn.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=max(column.least, width // column.part) if column.part else None,
            min_width=column.least,
            ratio=1 if column is _COLUMNS[-1] else None,
        )
    for row in rows[:room]:
        cells = dict(zip(_COLUMNS, _cells(row), strict=True))
        drawn.add_row(*(cells[column] for column in shown), style=_STYLES.get(row.phase, ""))
    rest = len(rows) - room
    return Group(drawn, Text(f"... and {rest} more" if rest > 0 else "", style="dim"))


def line(row: Row, *, seconds: float) -> str:
    """One change as text."""
    job, kind, phase, utilization, memory, share, gpus, others = _cells(row)
    predicted = f"  predicted {utilization} %, {memory} GiB" if row.utilization_percent else ""
    where = f"  on {gpus} (simulated), share {share}" if gpus else ""
    return f"{seconds:6.1f} s  {job:36} {kind:10} {phase:9}{predicted}{where}  {others}".rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    running = row.phase in ("Running", "Succeeded")
    return (
        f"{row.namespace}/{row.name}",
        row.kind,
        row.phase,
        "" if row.utilization_percent is None else "{} ({})".format(*row.utilization_percent),
        "" if row.memory_mib is None else f"{row.memory_mib / 1024:.1f}",
        "" if row.share is None else str(row.share),
        ", ".join(row.gpus),
        ", ".join(row.co_tenants) if running else row.reason,
    )


def summary(found: Summary) -> RenderableType:
    """Return the figures at the end."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column()
    for label, text in _figures(found):
        drawn.add_row(label, text)
    problems = [Text(f"BROKEN PROMISE: {text}", style="bold red") for text in found.violations]
    problems += [
        Text(f"NOT FINISHED: {row.namespace}/{row.name} is {row.phase}. {row.reason}", style="bold red")
        for row in found.unfinished
    ]
    return Group(Text(), _gpu_bars(found), Text(), drawn, *problems)


def _gpu_bars(found: Summary) -> RenderableType:
    """One bar for each GPU: the predicted utilization of all its jobs together, while it had any."""
    bars = Table(box=None, pad_edge=False)
    bars.add_column("simulated GPU", no_wrap=True)
    bars.add_column("predicted utilization", no_wrap=True, min_width=_BAR_WIDTH)
    for heading in ("%", "jobs", "busy %"):
        bars.add_column(heading, justify="right", no_wrap=True)
    for use in found.by_gpu:
        full = round(min(use.utilization_percent, 100) / 100 * _BAR_WIDTH)
        bar = "\u2588" * full + "\u2591" * (_BAR_WIDTH - full)
        bars.add_row(use.name, bar, f"{use.utilization_percent:.0f}", f"{use.tenants:.1f}", f"{use.busy_percent:.0f}")
    return bars


_BAR_WIDTH = 25


def _figures(found: Summary) -> list[tuple[str, str]]:
    return [
        ("placed", f"{found.pods} pods in {found.seconds:.1f} s; {found.pods_per_second} in the busiest second"),
        ("GPUs", _gpus(found)),
        ("wait", _seconds(found.waits, "from creation to binding, with the queue")),
        ("latency", _seconds(found.latencies, "from the lifted gate to binding")),
        (
            "unpredicted",
            "; ".join(f"{row.namespace}/{row.name}, {row.unpredicted}" for row in found.unpredicted) or "none",
        ),
        ("waited for", ", ".join(f"{reason} ({count})" for reason, count in found.reasons.most_common()) or "nothing"),
        ("promises", f"{len(found.violations)} broken" if found.violations else _KEPT),
    ]


_KEPT = "kept after every event: at most 3 tenants, 100 hundredths, the GPU's memory, one namespace per GPU"


def _gpus(found: Summary) -> str:
    return (
        f"{found.jobs_at_once} jobs ran at once on {found.gpus_at_once} of {found.gpus} simulated GPUs, where one job "
        f"per GPU would have needed {found.jobs_at_once}; {found.sharing:.2f} jobs on a GPU in use, on average"
    )


def _seconds(values: Sequence[float], what: str) -> str:
    return f"p50 {percentile(values, 50):.3f} s, p99 {percentile(values, 99):.3f} s, {what}"
