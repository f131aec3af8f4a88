"""Writes the generated sections of docs/reference/ and of the chart's README, or checks that they are up to date."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from cotenant_api import errors

SUMMARY = "write or check the generated sections of docs/reference/ and of the chart's README"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="write them")
    choice.add_argument("--check", action="store_true", help="fail unless they are up to date")
    parser.add_argument("--dir", type=Path, help="the one folder (default: docs/reference and the chart)")


def run(arguments: Namespace) -> int:
    """Write, or check.

    Raises:
        PermanentError: a page is outdated.
    """
    from cotenant_e2e.documentation import reference

    for page, text in reference.pages(*([arguments.dir] if arguments.dir else [])).items():
        if page.read_text(encoding="utf-8") == text:
            continue
        if arguments.check:
            raise errors.PermanentError(f"{page} is outdated: run `{reference.COMMAND}`")
        page.write_text(text, encoding="utf-8")
    return 0
