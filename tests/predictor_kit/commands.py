"""Calls a subcommand as `cotenant` does, without what is installed beside it."""

import argparse
import sys

from cotenant_api import errors
from cotenant_api.command import Command


def called(command: Command, *argv: str) -> int:
    """The exit code; an error is one line on standard error."""
    parser = argparse.ArgumentParser()
    command.configure(parser)
    try:
        return command.run(parser.parse_args(argv))
    except errors.CotenantError as error:
        print(error, file=sys.stderr)
        return 1
