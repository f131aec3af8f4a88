"""Writes what the Helm chart takes from `manifests/`, or checks that it is in step."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from cotenant_api import errors
from cotenant_e2e import charts

SUMMARY = "write or check what charts/cotenant takes from manifests/"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="write these files into the chart")
    choice.add_argument("--check", action="store_true", help="fail unless they are in step")
    parser.add_argument("--dir", type=Path, default=charts.CHART, help="the chart (default: charts/cotenant)")


def run(arguments: Namespace) -> int:
    """Write, or check.

    Raises:
        PermanentError: a file is not in step.
    """
    chart: Path = arguments.dir
    wanted = charts.rendered(chart)
    stale = {name: text for name, text in wanted.items() if _text(chart / name) != text}
    left_over = charts.generated(chart) - wanted.keys()
    if arguments.check and (stale or left_over):
        first = min({*stale, *left_over})
        raise errors.PermanentError(f"{chart / first} is not in step with manifests/: {charts.COMMAND}")
    for name in left_over:
        (chart / name).unlink()
    for name, text in stale.items():
        (chart / name).parent.mkdir(parents=True, exist_ok=True)
        (chart / name).write_text(text)
    return 0


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
