"""Writes which of the rights that our accounts have were used, from the audit logs of suites that were run."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from cotenant_api import errors
from cotenant_e2e import charts, rights

SUMMARY = "write manifests/rbac/rights.txt from the audit logs that suites left (COTENANT_RECORD_RIGHTS)"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--logs", type=Path, required=True, metavar="DIR", help="COTENANT_RECORD_RIGHTS of the suites")
    parser.add_argument("--add", action="store_true", help="what was used before is used: the logs are of some suites")


def run(arguments: Namespace) -> int:
    """Write it, and name what is used and not granted, and what is granted and never used.

    Raises:
        InvalidInputError: there are no logs, or the record cannot be read.
    """
    logs = sorted(arguments.logs.glob("*.log"))
    if not logs:
        raise errors.InvalidInputError("--logs", str(arguments.logs), "run suites with COTENANT_RECORD_RIGHTS first")
    text = charts.RIGHTS.read_text()
    known, may = rights.read(text, source=str(charts.RIGHTS)), rights.granted(charts.access())
    did = rights.used(_lines(logs))
    did |= {right for right, word in known.items() if word == rights.USED} if arguments.add else set()
    head = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    charts.RIGHTS.write_text(rights.written(head, known, may=may, did=did))
    for right in sorted(may - did):
        print(f"never used: {right}")
    return 0


def _lines(logs: list[Path]) -> Iterator[str]:
    for path in logs:
        with path.open() as file:
            yield from file
