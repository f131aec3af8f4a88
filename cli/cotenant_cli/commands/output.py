"""Arguments that all commands have, and output as asked for: for people, or for programs."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cotenant_api import errors, tables, terminal

if TYPE_CHECKING:
    from cotenant_api import documents

TABLE: Final = "table"
WIDE: Final = "wide"
JSON: Final = "json"
YAML: Final = "yaml"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--context", metavar="C", help="of the kubeconfig; default: its current one")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default: as kubectl chooses it")
    parser.add_argument(
        "-o",
        "--output",
        choices=(TABLE, WIDE, JSON, YAML),
        default=TABLE,
        help="for people, with more columns, or the whole as one document (default: %(default)s)",
    )


def require_name(field: str, name: str) -> str:
    """Return the name, if an object may have it: it becomes a part of a path.

    Raises:
        InvalidInputError: it may not.
    """
    if not _NAME.fullmatch(name):
        raise errors.InvalidInputError(field, name, "must be a name: lower case letters, digits, '-' and '.'")
    return name


def rendered(
    shown: "documents.Document", lines: Callable[[tables.Look], Iterable[str]], look: tables.Look, *, output: str
) -> str:
    """Return the text, with a line's end."""
    if output in (JSON, YAML):
        return of_object(shown.to_object(), output)
    return "\n".join(lines(look)) + "\n"


def of_object(shown: Mapping[str, Any], output: str) -> str:
    """Return a document as JSON or YAML, with a line's end."""
    if output == JSON:
        return json.dumps(shown, indent=2, allow_nan=False) + "\n"
    import yaml

    return str(yaml.safe_dump(dict(shown), sort_keys=False))


def write(text: str) -> bool:
    """Write to standard output; False: who read it has gone (`cotenant top | head`): there is nothing more to do."""
    return terminal.write(text, sys.stdout)


def look(output: str) -> tables.Look:
    """Return how tables are shown on standard output: in its colours, and within its width where it is a terminal."""
    return tables.Look(wide=output == WIDE, colours=terminal.in_colours(sys.stdout), width=terminal.width(sys.stdout))
