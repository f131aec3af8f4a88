"""Writes what the Helm chart takes from `manifests/`, or checks that it is in step."""

from argparse import ArgumentParser, Namespace

from cotenant_api import errors
from cotenant_e2e import charts

SUMMARY = "write or check what charts/cotenant takes from manifests/"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="write these files into the chart")
    choice.add_argument("--check", action="store_true", help="fail unless they are in step")


def run(arguments: Namespace) -> int:
    """Write, or check.

    Raises:
        PermanentError: a file is not in step.
    """
    wanted = charts.rendered()
    for name in sorted(charts.generated(charts.CHART) - wanted.keys()):
        _differs(name, arguments)
        (charts.CHART / name).unlink()
    for name, text in wanted.items():
        path = charts.CHART / name
        if not path.exists() or path.read_text() != text:
            _differs(name, arguments)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 0


def _differs(name: str, arguments: Namespace) -> None:
    if arguments.check:
        raise errors.PermanentError(f"charts/cotenant/{name} is not in step with manifests/: {charts.COMMAND}")
