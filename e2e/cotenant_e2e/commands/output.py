"""How a benchmark's figures come out: as tables or one JSON document on standard output, and into a page."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant_api import sections


def add(parser: ArgumentParser) -> None:
    """`--json` and `--write`."""
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this page, between its markers")


def require_page(arguments: Namespace, *, command: str) -> None:
    """Before anything is measured. Raises InvalidInputError where the page has no place for the tables of a command."""
    if arguments.write is not None:
        sections.require(arguments.write, command=command)


def show(arguments: Namespace, *, lines: list[str], document: Mapping[str, Any], command: str) -> None:
    """Print the tables or the document, and put the tables into the page."""
    print(json.dumps(document) if arguments.json else "\n".join(lines))
    if arguments.write is not None:
        sections.replace(arguments.write, lines, command=command)


def say(line: str) -> None:
    """Tell how far it is, on standard error."""
    print(line, file=sys.stderr, flush=True)
