"""The command lines `cotenant` and `kubectl-cotenant`: one and the same.

Subcommands come from the entry points of the group `cotenant.commands`; this module knows none of them.
"""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Final, cast

import cotenant_api
from cotenant_api import descriptors, errors, printable, terminal
from cotenant_api.command import Command

GROUP = "cotenant.commands"
REST = "--"
"""What is behind it is no argument of ours, for commands that take it."""
_INDENT: Final = 20
FAILED: Final = 1
WRONG_ARGUMENTS: Final = 2
"""As argparse exits."""
NO_READER: Final = 141
"""As shells tell of a program that SIGPIPE ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code.

    2: the arguments, or files that they name, cannot be used. 1: another CotenantError. Both are told in one line.
    141: whoever read standard output has gone (`cotenant size ... | head`), of what prints by itself.
    """
    try:
        try:
            code = _run(argv)
        except SystemExit:
            _flush()
            raise
        _flush()
    except BrokenPipeError:
        if terminal.has_reader(sys.stdout):
            raise
        terminal.discard(sys.stdout)
        return NO_READER
    return code


def _run(argv: Sequence[str] | None) -> int:
    descriptors.raise_limit()
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
        terminal.prepare()
        code = cast("Command", entry.load()).run(known)
        terminal.flush()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("cotenant_"):
            raise
        return _fail(
            f"{known.command} needs {error.name}: pip install '.[{_extra(entry)}]' in a clone of the repository"
        )
    except errors.InvalidInputError as error:
        return _fail(f"{known.command}: {error}", code=WRONG_ARGUMENTS)
    except errors.CotenantError as error:
        return _fail(f"{known.command}: {error}")
    except KeyboardInterrupt:
        return 130
    return code


def entries() -> dict[str, metadata.EntryPoint]:
    """Return the commands that are installed, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def parser(commands: Mapping[str, metadata.EntryPoint]) -> argparse.ArgumentParser:
    """Return the command line of these commands."""
    made = argparse.ArgumentParser(
        prog="cotenant",
        description="GPU co-tenancy for deep-learning jobs on Kubernetes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"cotenant {cotenant_api.__version__}")
    subparsers = made.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    components: list[str] = []
    for name, entry in sorted(commands.items()):
        module = cast("Command", entry.load())
        component = getattr(module, "COMPONENT", False)
        summary = module.SUMMARY
        # What has no help text is not listed.
        one = subparsers.add_parser(name) if component else subparsers.add_parser(name, help=summary)
        one.description = summary
        components += _told(name, module.SUMMARY) if component else []
        examples = getattr(module, "EXAMPLES", None)
        if examples is not None:
            one.epilog, one.formatter_class = examples, argparse.RawDescriptionHelpFormatter
        module.configure(one)
    made.epilog = "\n".join(["commands of components, and for administrators:", *components]) if components else None
    return made


def _told(name: str, summary: str) -> list[str]:
    """Lines on a command, as argparse would lay them out."""
    first, *more = textwrap.wrap(summary, max(shutil.get_terminal_size().columns - _INDENT - 2, _INDENT))
    head = [f"    {name:<{_INDENT - 4}}{first}"] if len(name) <= _INDENT - 6 else [f"    {name}", " " * _INDENT + first]
    return [*head, *(" " * _INDENT + line for line in more)]


def _extra(entry: metadata.EntryPoint) -> str:
    """Return the extra that brings a command's dependencies: the command says it, else it is named as its component."""
    return str(getattr(entry.load(), "EXTRA", entry.module.partition(".")[0].removeprefix("cotenant_")))


def _flush() -> None:
    """Write what is left, where there is a standard output, while a failure can be told."""
    print(end="", flush=True)


def _fail(message: str, *, code: int = FAILED) -> int:
    print(f"cotenant: {printable.plain(message)}", file=sys.stderr)
    return code
