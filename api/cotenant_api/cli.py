"""The command lines `cotenant` and `kubectl-cotenant`: one and the same.

Subcommands come from the entry points of the group `cotenant.commands`; this module knows none of them.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import cast

import cotenant_api
from cotenant_api import errors
from cotenant_api.command import Command

GROUP = "cotenant.commands"
REST = "--"
"""What is behind it is no argument of ours, for commands that take it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; its exit code. 2: the arguments are wrong; 1: a CotenantError, printed as one line."""
    words = list(sys.argv[1:] if argv is None else argv)
    commands = entries()
    # A process that stays for long should not hold what the other commands import.
    named = {name: entry for name, entry in commands.items() if words and words[0] == name}
    rest: list[str] = []
    if any(getattr(entry.load(), "TAKES_REST", False) for entry in named.values()) and REST in words:
        at = words.index(REST)
        words, rest = words[:at], words[at + 1 :]
    known = parser(named or commands).parse_args(words)
    known.rest = rest
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


def entries() -> dict[str, metadata.EntryPoint]:
    """The commands that are installed, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def parser(commands: Mapping[str, metadata.EntryPoint]) -> argparse.ArgumentParser:
    """The command line of these commands."""
    made = argparse.ArgumentParser(prog="cotenant", description="GPU co-tenancy for deep-learning jobs on Kubernetes.")
    made.add_argument("--version", action="version", version=f"cotenant {cotenant_api.__version__}")
    subparsers = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, entry in sorted(commands.items()):
        module = cast("Command", entry.load())
        one = subparsers.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        examples = getattr(module, "EXAMPLES", None)
        if examples is not None:
            one.epilog, one.formatter_class = examples, argparse.RawDescriptionHelpFormatter
        module.configure(one)
    return made


def _extra(entry: metadata.EntryPoint) -> str:
    """The extra that brings a command's dependencies: the command says it, else it is named as its component."""
    return str(getattr(entry.load(), "EXTRA", entry.module.partition(".")[0].removeprefix("cotenant_")))


def _fail(message: str) -> int:
    print(f"cotenant: {message}", file=sys.stderr)
    return 1
