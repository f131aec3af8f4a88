"""The command lines `cotenant` and `kubectl-cotenant`: one and the same.

Subcommands come from the entry points of the group `cotenant.commands`; this module knows none of them.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import cast

import cotenant_api
from cotenant_api import errors
from cotenant_api.command import Command

GROUP = "cotenant.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; its exit code. 2: the arguments are wrong; 1: a CotenantError, printed as one line."""
    words = sys.argv[1:] if argv is None else argv
    commands = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    # A process that stays for long should not hold what the other commands import.
    named = {name: entry for name, entry in commands.items() if words and words[0] == name}
    known = _parser(named or commands).parse_args(words)
    entry = commands[known.command]
    try:
        return cast("Command", entry.load()).run(known)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("cotenant_"):
            raise
        return _fail(f"{known.command} needs {error.name}: pip install 'cotenant[{_extra(entry)}]'")
    except errors.CotenantError as error:
        return _fail(f"{known.command}: {error}")
    except KeyboardInterrupt:
        return 130


def _parser(commands: dict[str, metadata.EntryPoint]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cotenant", description="GPU co-tenancy for deep-learning jobs on Kubernetes."
    )
    parser.add_argument("--version", action="version", version=f"cotenant {cotenant_api.__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, entry in sorted(commands.items()):
        module = cast("Command", entry.load())
        module.configure(subparsers.add_parser(name, help=module.SUMMARY, description=module.SUMMARY))
    return parser


def _extra(entry: metadata.EntryPoint) -> str:
    """The extra that brings a command's dependencies is named as its component."""
    return entry.module.partition(".")[0].removeprefix("cotenant_")


def _fail(message: str) -> int:
    print(f"cotenant: {message}", file=sys.stderr)
    return 1
