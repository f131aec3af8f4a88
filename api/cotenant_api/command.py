"""What a subcommand of `cotenant` is: a module with these three names, and at will with four more.

- EXAMPLES: str: what stands below the help text.
- EXTRA: str: the extra that brings what it needs, where that is not named as its component.
- TAKES_REST: bool: it finds the words behind `--` in `arguments.rest`.
- COMPONENT: bool: it runs in the cluster or on a node, and `--help` lists it apart from what people call.

The module itself imports nothing heavy, so that `cotenant --help` is quick and works without extras;
what needs an extra is imported inside `run`.
"""

from argparse import ArgumentParser, Namespace
from typing import Protocol


class Command(Protocol):
    """A module named by an entry point of the group `cotenant.commands`."""

    SUMMARY: str
    """One line for the list of commands."""

    def configure(self, parser: ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: Namespace) -> int:
        """Do it, and return the exit code.

        A CotenantError ends with its message and exit code 1; an InvalidInputError with 2, as a wrong argument.
        """
